"""Keeps a connection alive: retries what fails, with a backoff, and reports the actual state.

Used by the adapters around every call of their receiving side. `until_first` and `within` are for any caller that waits
for the first of several coroutines, or for a limited time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from channels.base import ConnectionState
from channels.errors import ChannelError, Fatal, RateLimited

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Coroutine

    from channels.base import Clock, Health

T = TypeVar("T")

TOLD_AGAIN, TOLD_AT_LEAST = 300.0, 3600.0
"""First and longest interval, in seconds, for logging again that a connection is still lost; it doubles each time."""

Judge = Callable[[ChannelError], tuple[str, float] | None]
"""A platform's own handling of a failure: (what to report, seconds to wait); None to treat it like any other."""


@dataclass(slots=True)
class Backoff:
    """Waiting times in seconds that double from `first` to `most`, each shortened by up to a quarter at random."""

    first: float = 1.0
    most: float = 30.0
    _next: float = 0.0

    def next(self) -> float:
        current = self._next or self.first
        self._next = min(current * 2, self.most)
        return current * random.uniform(0.75, 1.0)

    def reset(self) -> None:
        self._next = 0.0


def _like_any_other(error: ChannelError) -> None:
    return None


class Supervisor:
    """Supervisor of one account's receiving, and the writer of its `Health.state`, `detail` and `reconnects`.

    The adapter decides when a connection counts as good again: `connected` is for people, `steady` for the backoff.
    url: of the server that is called, whose host is reported with each failure.
    """

    def __init__(
        self,
        health: Health,
        clock: Clock,
        log: logging.Logger,
        account: str,
        judge: Judge = _like_any_other,
        *,
        url: str = "",
    ) -> None:
        self._health = health
        self._clock = clock
        self._log = log
        self._account = account
        self._judge = judge
        self._backoff = Backoff()
        host = urlsplit(url).hostname
        self._at = f" ({host})" if host else ""
        self._lost_at = self._tell_at = 0.0
        self._pause = TOLD_AGAIN

    async def keep(self, step: Callable[[], Awaitable[T]]) -> T:
        """The result of `step`, which is retried without limit until it succeeds.

        Raises Fatal, and lets anything that is not a ChannelError through.
        """
        while True:
            try:
                return await step()
            except Fatal as error:
                self._health.state = ConnectionState.STOPPED
                self._health.detail = f"{error}; {error.hint}"
                raise
            except ChannelError as error:
                judged = self._judge(error)
                if judged is None:
                    await self.pause(str(error), error.retry_after if isinstance(error, RateLimited) else 0.0)
                else:
                    await self._wait(*judged)

    def connected(self) -> None:
        """Record that the connection is up and the platform has answered on it."""
        if self._health.state is ConnectionState.RETRYING:
            self._health.reconnects += 1
            self._log.info("%s: connected again", self._account)
        self._health.state = ConnectionState.CONNECTED
        self._health.detail = ""

    def lost(self, detail: str) -> None:
        """Record that the connection was lost or could not be established; logged at once, then less and less often
        while the reason stays the same."""
        now, told = self._clock.monotonic(), f"{detail}{self._at}"
        if self._health.state is not ConnectionState.RETRYING:
            self._lost_at = now
        if self._health.state is not ConnectionState.RETRYING or self._health.detail != told:
            self._log.warning("%s: %s; trying again%s", self._account, detail, self._at)
            self._tell_at, self._pause = now + TOLD_AGAIN, TOLD_AGAIN
        elif now >= self._tell_at:
            minutes = (now - self._lost_at) / 60
            self._log.warning("%s: %s, for %.0f min; trying again%s", self._account, detail, minutes, self._at)
            self._pause = min(2 * self._pause, TOLD_AT_LEAST)
            self._tell_at = now + self._pause
        self._health.state = ConnectionState.RETRYING
        self._health.detail = told

    async def pause(self, detail: str, at_least: float = 0.0) -> None:
        """Wait before the next attempt: longer each time, until `steady`."""
        await self._wait(detail, max(at_least, self._backoff.next()))

    def steady(self) -> None:
        """Record that the connection is stable: the next failure starts the backoff from the beginning."""
        self._backoff.reset()

    async def _wait(self, detail: str, seconds: float) -> None:
        self.lost(detail)
        await self._clock.sleep(seconds)


async def until_first(*parts: Coroutine[Any, Any, object]) -> None:
    """Run all parts until one ends or raises, then cancel the others. Raises what the first one raised."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def within(seconds: float, part: Coroutine[Any, Any, object]) -> bool:
    """Run a part for at most that many seconds, then cancel it; return whether it ended. Raises what it raises.

    Unlike Python 3.11's asyncio.wait_for, it loses no cancellation that arrives as the part ends, after which the
    caller would go on forever; unlike 3.11.2's asyncio.timeout, it also works in a task that was cancelled before.
    """
    task = asyncio.ensure_future(part)
    try:
        ended, _ = await asyncio.wait({task}, timeout=seconds)
        for each in ended:
            each.result()
        return bool(ended)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
