"""How operators hear of a time in which nothing can be written"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

FIRST_PAUSE = 4.0
LONGEST_PAUSE = 60.0
RETRY_SECONDS = 1.0

T = TypeVar("T")


class Outage:
    """Told when it begins, then after pauses that double up to a minute, and once when it is over, however many wait.

    It is over when something succeeds while nothing else that failed is still waiting: a full disk has room for a small
    write now and then. tell: a method of the caller's logger. bad, good: the two states.
    """

    def __init__(
        self, tell: Callable[..., None], bad: str, good: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._tell = tell
        self._bad = bad
        self._good = good
        self._monotonic = monotonic
        self._waiting: set[object] = set()
        self._began: float | None = None
        self._tell_at = 0.0
        self._pause = FIRST_PAUSE

    async def wait_out(
        self,
        call: Callable[[], Awaitable[T]],
        failures: type[Exception] | tuple[type[Exception], ...],
        passing: Callable[[Exception], bool],
    ) -> T:
        """The result of `call`, repeated while it fails with one of `failures` that is a passing one.

        What waits for it is a run, and what limits or stops the run ends the waiting.
        """
        try:
            while True:
                try:
                    result = await call()
                except failures as error:
                    if not passing(error):
                        raise
                    self.failed(call, error)
                else:
                    self.succeeded(call)
                    return result
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            self.left(call)

    def failed(self, work: object, error: Exception) -> None:
        """That work was tried in vain, and will be tried again."""
        self._waiting.add(work)
        now = self._monotonic()
        if self._began is None:
            self._began, self._tell_at, self._pause = now, now, FIRST_PAUSE
        if now >= self._tell_at:
            self._tell("%s, it is tried again: %s", self._bad, error)
            self._tell_at = now + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def succeeded(self, work: object) -> None:
        self._waiting.discard(work)
        if self._began is not None and not self._waiting:
            self._tell("%s, after %.0f s", self._good, self._monotonic() - self._began)
            self._began = None

    def left(self, work: object) -> None:
        """Stop counting that work among what waits: it is not tried any more."""
        self._waiting.discard(work)
