"""When the garbage collector works: only on what is new, and hardly while the process starts. And what malloc keeps.

`hold` is called by the command line, `settle` when everything is imported.
"""

from __future__ import annotations

import ctypes
import gc

THRESHOLDS = (10_000, 10, 10)
"""Of the three generations (Python docs, module gc). A turn makes some ten thousand objects and drops them again, so by
default the collector runs ten times for each message and finds nothing."""
AT_START = (20_000, 1_000_000, 1_000_000)
"""While the process starts, in which hardly anything is garbage after its first moments: the young generation alone.
Without that, what imports and the making of tools leave behind keeps 2 to 4 MB from being used again."""
ARENA_MAX = -8
"""M_ARENA_MAX of glibc's malloc.h, see mallopt(3)."""


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


def _c_library(function: str, *arguments: int) -> None:
    """Call a function that only glibc has."""
    found = getattr(ctypes.CDLL(None), function, None)
    if found is not None:
        found(*arguments)
