"""Antler that freezes at a bad moment: `python -m tests.flow.freezing`, like bot; workers are soon declared dead.

FREEZES_AFTER: the step right after whose commit it stops itself (SIGSTOP), once; see STEPS.
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
"""Message on standard error."""
STEPS = {"model": "StoreRunLedger.model_called", "tool": "StoreEffectLog.begin"}


def become(step: str | None) -> None:
    """Apply this to the process. step: None: it never freezes."""
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
