"""Tuning of the garbage collector (only new objects, and hardly any work during startup) and of malloc.

Call `hold` before the imports and `settle` after them; `give_back` runs while the process serves.
"""

from __future__ import annotations

import ctypes
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from channels.base import Clock

THRESHOLDS = (10_000, 10, 10)
"""Thresholds of the three generations (Python docs, module gc). A turn creates and drops some ten thousand objects, so
by default the collector runs ten times for each message and finds nothing."""
AT_START = (20_000, 1_000_000, 1_000_000)
"""Thresholds during startup, when few objects that survive their first moments become garbage: only the young
generation is collected. Without that, garbage from imports and tool creation keeps 2 to 4 MB from being reused."""
ARENA_MAX = -8
"""M_ARENA_MAX of glibc's malloc.h, see mallopt(3)."""

QUIET_SECONDS = 10.0


def hold() -> None:
    """Collect only young objects until `settle`: imports create objects by the hundred thousand, and most stay."""
    gc.set_threshold(*AT_START)
    # Python's threads run one at a time, so an arena for each (mallopt(3)) only wastes memory: 2 MB.
    _c_library("mallopt", ARENA_MAX, 1)


def settle() -> None:
    """Exempt all existing objects (modules, classes, the agent) from collection, and set the normal thresholds.

    A full collection of a quarter of a million objects that will never be garbage stops the event loop for 0.1 s.
    """
    gc.collect()
    gc.freeze()
    _c_library("malloc_trim", 0)  # memory that imports needed temporarily: 4 MB
    gc.set_threshold(*THRESHOLDS)


async def give_back(clock: Clock) -> None:
    """Whenever the process is idle after work, return the memory used for it to the system: 3 to 4 MB.

    Work is recognized by runs of the collector; polls and timers create too few objects to trigger it.
    """
    seen = given = _collections()
    while True:
        await clock.sleep(QUIET_SECONDS)
        before, seen = seen, _collections()
        if before == seen != given:
            # This frees the buffers of finished work and Python's free lists. One generation after the other, since
            # the oldest alone blocks the event loop for 4 to 6 ms.
            for generation in range(3):
                gc.collect(generation)
                await clock.sleep(0)
            _c_library("malloc_trim", 0)
            seen = given = _collections()


def _collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def _c_library(function: str, *arguments: int) -> None:
    """Call a C library function, if there is one of this name: only glibc has those used here."""
    found = getattr(ctypes.CDLL(None), function, None)
    if found is not None:
        found(*arguments)
