"""Antler that says when it gives memory back: `python -m tests.flow.resting`, as bot is; it rests after a moment."""

from __future__ import annotations

import sys

from bot.process import gc_tuning

GIVEN_BACK = "memory is given back to the system"
"""Said on the standard error each time but for the first, which belongs to the start."""


def become() -> None:
    """Have this process do so."""
    gc_tuning.QUIET_SECONDS, gc_tuning.THRESHOLDS = 0.5, (2_000, 10, 10)  # so that three messages are work
    call, starting = gc_tuning._c_library, ["malloc_trim"]

    def told(function: str, *arguments: int) -> None:
        call(function, *arguments)
        if function in starting:
            starting.clear()
        elif function == "malloc_trim":
            print(GIVEN_BACK, file=sys.stderr, flush=True)

    gc_tuning._c_library = told


if __name__ == "__main__":
    become()
    from bot.__main__ import main

    main()
