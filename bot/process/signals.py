"""SIGTERM and Ctrl-C: the first one asks for a planned stop, the second one ends the process at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FORCED = 1


def on_stop(stop: Callable[[], None]) -> None:
    """Call `stop` at the first signal. A kill at any point loses nothing, so the second one is just that."""
    loop = asyncio.get_running_loop()
    received = 0

    def receive() -> None:
        nonlocal received
        received += 1
        if received > 1:
            print("antler: forced to stop; unfinished answers go on at the next start", file=sys.stderr, flush=True)
            os._exit(FORCED)
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, receive)


def interrupt() -> None:
    """A Ctrl-C that came as a key: counted like one that came as a signal."""
    signal.raise_signal(signal.SIGINT)


def end_after(seconds: float) -> None:
    """A stop takes no longer than this, whatever hangs (a name look-up, a dead connection): then the process just ends,
    which loses nothing either."""

    def end() -> None:
        print(f"antler: still stopping after {seconds:.0f} s, ended", file=sys.stderr, flush=True)
        os._exit(FORCED)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
