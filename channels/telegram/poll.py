"""Receiving: polls updates, hands them over, requests the next ones only when they are committed, and reconnects.

Each answer is a sign of life. A 409 means another program, or an earlier poll of ours that broke off.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from channels.adapter import commit
from channels.base import ConnectionState
from channels.errors import NotCommitted, RateLimited, Temporary
from channels.supervision import Backoff, Supervisor
from channels.telegram.failures import AnotherPoller
from channels.telegram.inbound import ALLOWED_UPDATES, Reader

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable

    from channels.base import ChannelPorts, Clock, Health
    from channels.errors import ChannelError
    from channels.telegram.api import TelegramApi

T = TypeVar("T")

OWN_POLL = "Telegram still holds open the poll of a lost connection (409)"
GRACE_SECONDS = 15.0
"""How late an answer may be before the connection counts as dead; even with the longest poll less than 90 s."""
_IDLE_SECONDS = 0.5


class Poller:
    """The getUpdates loop of one bot. timeout: seconds that the server holds an empty poll open."""

    def __init__(
        self,
        api: TelegramApi,
        ports: ChannelPorts,
        health: Health,
        reader: Reader,
        timeout: int,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._api = api
        self._ports = ports
        self._health = health
        self._reader = reader
        self._timeout = timeout
        self._grace = grace
        self._offset: int | None = None

    async def step(self) -> None:
        """Poll once and commit. Raises ChannelError if the step has to be repeated; it then gets the same updates."""
        offset, started = self._offset, asyncio.get_running_loop().time()
        # After a failure the first poll returns at once, so that the state is correct early.
        timeout = self._timeout if self._health.state is ConnectionState.CONNECTED else 0
        updates = await self._api.poll(self._offset, timeout, ALLOWED_UPDATES, self._grace)
        self._health.last_sign = self._ports.clock.monotonic()
        readable = [update for update in updates if _has_id(update)]
        if updates and not readable:
            raise Temporary("getUpdates returned entries that are not updates")
        await self._publish(readable)
        if readable:
            # The highest of this batch, not the highest ever: ids start again after a week without updates.
            self._offset = max(update["update_id"] for update in readable) + 1
        if timeout and self._offset == offset and asyncio.get_running_loop().time() - started < _IDLE_SECONDS:
            # A server that neither waits nor respects the offset must not cause a busy loop.
            await self._ports.clock.sleep(_IDLE_SECONDS)

    async def _publish(self, updates: list[dict[str, Any]]) -> None:
        now = self._ports.clock.now()
        read = (self._reader.read(update, now) for update in updates)
        events = [event for event in read if event is not None]
        if not events:
            return
        try:
            await commit(events, self._ports)
        except NotCommitted:
            self._ports.log.exception("%s: events were not stored", self._reader.account)
            raise


def _has_id(update: object) -> bool:
    return isinstance(update, dict) and type(update.get("update_id")) is int


class PollSupervisor:
    """Runs one step at a time, see `channels.supervision.Supervisor`. held_for: seconds for which Telegram may keep a
    poll open whose connection broke on our side."""

    def __init__(
        self, health: Health, clock: Clock, log: logging.Logger, account: str, *, url: str, held_for: float
    ) -> None:
        self._account = account
        self._clock = clock
        self._held_for = held_for
        self._held_until = 0.0
        self._supervisor = Supervisor(health, clock, log, account, self._judge, url=url)
        self._conflict = Backoff(first=5.0, most=60.0)

    async def keep(self, step: Callable[[], Awaitable[T]]) -> T:
        """The result of `step`, retried until it succeeds. Raises Fatal."""
        result = await self._supervisor.keep(step)
        self._supervisor.connected()
        self._supervisor.steady()
        self._conflict.reset()
        return result

    def _judge(self, error: ChannelError) -> tuple[str, float] | None:
        if isinstance(error, RateLimited):
            return f"rate-limited by Telegram for {error.retry_after:.0f} s", error.retry_after + 0.5
        if isinstance(error, AnotherPoller) and self._clock.monotonic() < self._held_until:
            return OWN_POLL, self._conflict.next()
        if isinstance(error, AnotherPoller):
            detail = (
                "another program receives this bot's messages (409): stop it, or use another token here "
                f"(channels.{self._account}.token)"
            )
            return detail, self._conflict.next()
        if not isinstance(error, NotCommitted):
            self._held_until = self._clock.monotonic() + self._held_for
        return None
