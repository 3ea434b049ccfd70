"""When the garbage collector works: only on what is new, and hardly while the process starts. And what malloc keeps.

`hold` is called by the command line, `settle` when everything is imported; `give_back` runs while the process serves.
"""

from __future__ import annotations

import ctypes
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from channels.base import Clock

THRESHOLDS = (10_000, 10, 10)
"""Of the three generations (Python docs, module gc). A turn makes some ten thousand objects and drops them again, so by
default the collector runs ten times for each message and finds nothing."""
AT_START = (20_000, 1_000_000, 1_000_000)
"""While the process starts, in which hardly anything is garbage after its first moments: the young generation alone.
Without that, what imports and the making of tools leave behind keeps 2 to 4 MB from being used again."""
ARENA_MAX = -8
"""M_ARENA_MAX of glibc's malloc.h, see mallopt(3)."""

QUIET_SECONDS = 10.0


def hold() -> None:
    """Collect only what is young until `settle`: of the objects that imports make by the hundred thousand most stay."""
    gc.set_threshold(*AT_START)
    # Python's threads run one at a time, so an arena for each of them (mallopt(3)) is only memory: 2 MB.
    _c_library("mallopt", ARENA_MAX, 1)


def settle() -> None:
    """Take all that exists now (modules, classes, the agent) out of the collector's sight, and let it work.

    A full collection of a quarter of a million objects that will never be garbage stops the event loop for 0.1 s.
    """
    gc.collect()
    gc.freeze()
    _c_library("malloc_trim", 0)  # what imports needed for a while: 4 MB
    gc.set_threshold(*THRESHOLDS)


async def give_back(clock: Clock) -> None:
    """Whenever the process rests after work, give the memory that the work needed back to the system: 3 to 4 MB.

    Work is what makes the collector run; polls and timers make too little for that.
    """
    seen = given = _collections()
    while True:
        await clock.sleep(QUIET_SECONDS)
        before, seen = seen, _collections()
        if before == seen != given:
            # What has ended holds buffers, and Python keeps lists of free objects: both are gone then. One generation
            # after the other, as the oldest alone takes the event loop 4 to 6 ms.
            for generation in range(3):
                gc.collect(generation)
                await clock.sleep(0)
            _c_library("malloc_trim", 0)
            seen = given = _collections()


def _collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def _c_library(function: str, *arguments: int) -> None:
    """Call a function that only glibc has."""
    found = getattr(ctypes.CDLL(None), function, None)
    if found is not None:
        found(*arguments)
