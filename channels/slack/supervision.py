"""Repeats what fails until it works, waits sensibly in between, and says truthfully how things stand.

Called by channel.py and connection.py around everything that the receiving side asks of Slack.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from channels.base import ConnectionState
from channels.errors import ChannelError, Fatal, RateLimited

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable, Coroutine

    from channels.base import Clock, Health

T = TypeVar("T")


@dataclass(slots=True)
class Backoff:
    """Waiting times in seconds that double from `first` to `most`, each shortened by up to a quarter at random."""

    first: float
    most: float
    _next: float = 0.0

    def next(self) -> float:
        current = self._next or self.first
        self._next = min(current * 2, self.most)
        return current * random.uniform(0.75, 1.0)

    def reset(self) -> None:
        self._next = 0.0


class Supervisor:
    """Runs one step at a time until it succeeds, for ever if need be; only Fatal ends it, or no ChannelError at all."""

    def __init__(self, health: Health, clock: Clock, log: logging.Logger, account: str) -> None:
        self._health = health
        self._clock = clock
        self._log = log
        self._account = account
        self._backoff = Backoff(first=1.0, most=30.0)

    async def keep(self, step: Callable[[], Awaitable[T]]) -> T:
        """The result of `step`, repeated until it has one. Raises Fatal."""
        while True:
            try:
                return await step()
            except Fatal as error:
                self._health.state = ConnectionState.STOPPED
                self._health.detail = f"{error}; {error.hint}"
                raise
            except ChannelError as error:
                await self.pause(str(error), error.retry_after if isinstance(error, RateLimited) else 0.0)

    def connected(self) -> None:
        """The connection stands."""
        if self._health.state is ConnectionState.RETRYING:
            self._health.reconnects += 1
            self._log.info("%s: connected again", self._account)
        self._health.state = ConnectionState.CONNECTED
        self._health.detail = ""
        self._health.last_sign = self._clock.monotonic()

    def lost(self, detail: str) -> None:
        """The connection is gone, or did not come about; told once as long as the reason stays the same."""
        if self._health.state is not ConnectionState.RETRYING or self._health.detail != detail:
            self._log.warning("%s: %s; trying again", self._account, detail)
        self._health.state = ConnectionState.RETRYING
        self._health.detail = detail

    async def pause(self, detail: str, at_least: float = 0.0) -> None:
        """Wait before the next try: longer each time, until `steady`."""
        self.lost(detail)
        await self._clock.sleep(max(at_least, self._backoff.next()))

    def steady(self) -> None:
        """The connection has held for a while: the next failure is a first one again."""
        self._backoff.reset()


async def together(*parts: Coroutine[Any, Any, None]) -> None:
    """Run all parts until one ends or raises, which none does by itself but for a reason; then end the others."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
