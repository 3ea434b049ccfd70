"""What is Telegram's own of keeping the polling going: each answer is a sign of health, and 409 is a rival, or the poll
that broke off before.

Called by channel.py around everything that the receiving side asks of the API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from channels.errors import NotCommitted, RateLimited
from channels.supervision import Backoff, Supervisor
from channels.telegram.failures import AnotherPoller

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable

    from channels.base import Clock, Health
    from channels.errors import ChannelError

T = TypeVar("T")

OWN_POLL = "Telegram still holds open the poll whose connection broke (409)"


class PollSupervisor:
    """Runs one step at a time, see `channels.supervision.Supervisor`. held_for: seconds that Telegram may hold a poll
    open whose connection broke on this side."""

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
        """The result of `step`, repeated until it has one. Raises Fatal."""
        result = await self._supervisor.keep(step)
        self._supervisor.connected()
        self._supervisor.steady()
        self._conflict.reset()
        return result

    def _judge(self, error: ChannelError) -> tuple[str, float] | None:
        if isinstance(error, RateLimited):
            return f"Telegram asks to wait {error.retry_after:.0f} s", error.retry_after + 0.5
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
