"""Runs in the launched process: kills it with SIGKILL when it passes an armed crash window for the nth time."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from tests.torture.windows import ELSEWHERE, IN_CLUSTER, WINDOWS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.torture.seams import AfterImport
    from tests.torture.windows import Window

ARMED_FILE = "crash-at"
"""Contains WINDOW:N while a window is armed; the test writes it at any time."""
CRASHED_FILE = "crashed-at"
"""Gets a line WINDOW:N MONOTONIC_SECONDS at each crash."""


class Trap:
    """All windows of one process. folder: where the two files are."""

    def __init__(self, folder: Path) -> None:
        self._armed_file = folder / ARMED_FILE
        self._crashed_file = folder / CRASHED_FILE
        self._armed = ""
        self._left = 0

    def set(self, seams: AfterImport) -> None:
        """Wrap the seams of all windows."""
        for window in (*WINDOWS, *ELSEWHERE, *IN_CLUSTER):
            seams.replace(window.seam, functools.partial(self._wrapped, window))

    def _wrapped(self, window: Window, function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)

        def due(*args: Any, **kwargs: Any) -> bool:
            return self._is_armed(window) and self._passes(window, signature.bind(*args, **kwargs).arguments)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def asynchronous(*args: Any, **kwargs: Any) -> Any:
                if window.side == "before" and due(*args, **kwargs):
                    await asyncio.sleep(window.linger)
                    self._crash()
                result = await function(*args, **kwargs)
                if window.side == "after" and due(*args, **kwargs):
                    self._crash()
                return result

            return asynchronous

        @functools.wraps(function)
        def synchronous(*args: Any, **kwargs: Any) -> Any:
            if window.side == "before" and due(*args, **kwargs):
                self._crash()
            result = function(*args, **kwargs)
            if window.side == "after" and due(*args, **kwargs):
                self._crash()
            return result

        return synchronous

    def _is_armed(self, window: Window) -> bool:
        try:
            armed = self._armed_file.read_text()
        except FileNotFoundError:
            self._armed = ""
            return False
        if armed != self._armed:
            self._armed, self._left = armed, int(armed.partition(":")[2] or "1")
        return armed.partition(":")[0] == window.name

    def _passes(self, window: Window, arguments: dict[str, Any]) -> bool:
        if not window.counts(arguments):
            return False
        self._left -= 1
        return self._left == 0

    def _crash(self) -> None:
        with self._crashed_file.open("a") as file:
            file.write(f"{self._armed} {time.monotonic()}\n")
        self._armed_file.unlink(missing_ok=True)
        os.kill(os.getpid(), signal.SIGKILL)
