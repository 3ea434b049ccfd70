"""Reports outages, in which nothing can be written, to operators."""

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
    """Reported when it begins, then at pauses that double up to a minute, and when it ends, however many wait.

    It is over when something succeeds while no other failed work is still waiting: a full disk has room for a small
    write occasionally. tell: a method of the caller's logger. bad, good: the two states.
    """

    def __init__(
        self, tell: Callable[..., None], bad: str, good: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._tell = tell
        self._bad = bad
        self._good = good
        self._monotonic = monotonic
        self._waiting: dict[object, Exception] = {}
        self._began: float | None = None
        self._tell_at = 0.0
        self._pause = FIRST_PAUSE

    @property
    def trouble(self) -> str:
        """Why work waits, "" while none does."""
        return next((str(error) for error in self._waiting.values()), "")

    async def wait_out(
        self,
        call: Callable[[], Awaitable[T]],
        failures: type[Exception] | tuple[type[Exception], ...],
        passing: Callable[[Exception], bool],
    ) -> T:
        """The result of `call`, retried while it fails with one of `failures` that is transient (`passing`).

        The waiting caller is a run, and whatever limits or stops the run ends the waiting.
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
        """Record that this work failed and will be retried."""
        self._waiting[work] = error
        now = self._monotonic()
        if self._began is None:
            self._began, self._tell_at, self._pause = now, now, FIRST_PAUSE
        if now >= self._tell_at:
            self._tell("%s, retrying: %s", self._bad, error)
            self._tell_at = now + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def succeeded(self, work: object) -> None:
        self._waiting.pop(work, None)
        if self._began is not None and not self._waiting:
            self._tell("%s, after %.0f s", self._good, self._monotonic() - self._began)
            self._began = None

    def left(self, work: object) -> None:
        """Stop counting this work as waiting: it is not retried any more."""
        self._waiting.pop(work, None)
