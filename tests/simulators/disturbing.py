"""Shared disturbances of the Slack and Feishu test clients: limits, timing, connections."""

from collections.abc import Sequence
from typing import Any

from tests.simulators.client import SeenT, StagedClient, WaitTimeoutError


class SocketClient(StagedClient[SeenT]):
    """A client of a platform that sends its events over websockets and repeats unacknowledged ones."""

    async def set_limits(self, **limits: Any) -> None:
        """Change rate limits (see the platform's limits.py); `enforce`: refuse excess calls, or only count them."""
        await self._ask("limits", **limits)

    async def refusals(self) -> dict[str, int]:
        """Number of calls of each kind that the limits refused, or would have refused if enforced."""
        return {name: int(count) for name, count in (await self._ask("refusals")).items()}

    async def set_timing(
        self, *, ack_timeout: float | None = None, retry_delays: Sequence[float] | None = None
    ) -> None:
        """Set the seconds until an event counts as missed, and before each repetition (see delivery.py for both)."""
        delays = None if retry_delays is None else list(retry_delays)
        await self._ask("timing", ack_timeout=ack_timeout, retry_delays=delays)

    async def wait_connected(
        self, count: int = 1, *, more: bool = False, pings: int = 0, timeout: float = 40.0
    ) -> None:
        """Wait until the app has exactly `count` open sockets (`more`: or more) that sent `pings` pings."""
        answer = await self._ask("connected", count=count, more=more, pings=pings, wait=timeout)
        if not answer["connected"]:
            raise WaitTimeoutError(f"{answer['links']} sockets instead of {count} after {timeout} s")

    async def _release_held(self, order: Sequence[int] | None) -> int:
        """Send held events, in an order of positions (None: as queued); returns how many."""
        chosen = None if order is None else list(order)
        return int((await self._ask("release-events", order=chosen))["released"])
