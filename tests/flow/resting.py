"""Antler that reports when it returns memory: `python -m tests.flow.resting`, like bot, but soon considered idle."""

from __future__ import annotations

import sys

from bot.process import gc_tuning

GIVEN_BACK = "memory is given back to the system"
"""Message on standard error each time except the first, which is part of the start."""


def become() -> None:
    """Apply this to the process."""
    gc_tuning.QUIET_SECONDS, gc_tuning.THRESHOLDS = 0.5, (2_000, 10, 10)  # so that three messages count as work
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
