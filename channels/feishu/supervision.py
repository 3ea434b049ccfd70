"""Keeps the connection going: repeats what fails, waits sensibly in between, and says truthfully how things stand.

Called by channel.py around everything that the receiving side asks of the platform.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from channels.base import ConnectionState
from channels.errors import ChannelError, Fatal, RateLimited

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable

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
                await self._wait(error)

    def connected(self) -> None:
        """The socket is open, and the platform has answered on it."""
        if self._health.state is ConnectionState.RETRYING:
            self._health.reconnects += 1
            self._log.info("%s: connected again", self._account)
        self._health.state = ConnectionState.CONNECTED
        self._health.detail = ""
        self._backoff.reset()

    async def _wait(self, error: ChannelError) -> None:
        detail, seconds = str(error), self._backoff.next()
        if isinstance(error, RateLimited):
            detail, seconds = f"Feishu asks to wait {error.retry_after:.0f} s", error.retry_after + 0.5
        if self._health.state is not ConnectionState.RETRYING or self._health.detail != detail:
            self._log.warning("%s: %s; trying again", self._account, detail)
        self._health.state = ConnectionState.RETRYING
        self._health.detail = detail
        await self._clock.sleep(seconds)
