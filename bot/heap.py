"""When the garbage collector works: not while the process starts, and later only on what is new.

`hold` is called by the command line, `settle` by gateway.py when everything is imported.
"""

from __future__ import annotations

import gc

THRESHOLDS = (10_000, 10, 10)
"""Of the three generations (Python docs, module gc). A turn makes some ten thousand objects and drops them again, so by
default the collector runs ten times for each message and finds nothing."""


def hold() -> None:
    """Collect nothing until `settle`: imports make objects by the hundred thousand, and none of them is garbage."""
    gc.disable()


def settle() -> None:
    """Take all that exists now (modules, classes, the agent) out of the collector's sight, and let it work.

    A full collection of a quarter of a million objects that will never be garbage stops the event loop for 0.1 s.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
