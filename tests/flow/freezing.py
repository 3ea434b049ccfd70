"""Antler that freezes at a bad moment: `python -m tests.flow.freezing`, as bot is; its workers are taken for dead soon.

FREEZES_AFTER: the step of which it stops itself (SIGSTOP), once, right after its commit; see STEPS.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from bot.store import worker_runs
from bot.store.retrying import RetryingStore
from bot.workers import dispatch

STALLED_SECONDS = 3.0
FREEZES = "this process freezes"
"""Said on the standard error."""
STEPS = {"model": "StoreRunLedger.model_called", "tool": "StoreEffectLog.begin"}


def become(step: str | None) -> None:
    """Have this process do so. step: None: it never freezes."""
    worker_runs.STALLED_SECONDS, dispatch.TIDY_SECONDS = STALLED_SECONDS, 1.0
    if step is None:
        return
    write, left = RetryingStore.write, [STEPS[step]]

    async def written(store: RetryingStore, unit: Any) -> Any:
        result = await write(store, unit)
        if left and getattr(unit, "__qualname__", "").startswith(left[0]):
            left.clear()
            print(FREEZES, file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
        return result

    RetryingStore.write = written  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    become(os.environ.get("FREEZES_AFTER"))
    from bot.__main__ import main

    main()
