"""What is Telegram's own of keeping the polling going: each answer is a sign of health, and 409 is a rival.

Called by channel.py around everything that the receiving side asks of the API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from channels.errors import RateLimited
from channels.supervision import Backoff, Supervisor
from channels.telegram.failures import AnotherPoller

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable

    from channels.base import Clock, Health
    from channels.errors import ChannelError

T = TypeVar("T")


class PollSupervisor:
    """Runs one step at a time, see `channels.supervision.Supervisor`."""

    def __init__(self, health: Health, clock: Clock, log: logging.Logger, account: str) -> None:
        self._account = account
        self._supervisor = Supervisor(health, clock, log, account, self._judge)
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
        if isinstance(error, AnotherPoller):
            detail = (
                "another program receives this bot's messages (409): stop it, or use another token here "
                f"(channels.{self._account}.token)"
            )
            return detail, self._conflict.next()
        return None
