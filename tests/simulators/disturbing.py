"""The part of the Slack and Feishu test clients that disturbs in the same way: limits, timing, connections."""

from collections.abc import Sequence
from typing import Any

from tests.simulators.client import SeenT, StagedClient, WaitTimeoutError


class SocketClient(StagedClient[SeenT]):
    """Of a platform that sends its events over websockets and repeats what is not acked."""

    async def set_limits(self, **limits: Any) -> None:
        """Change rate limits (see the platform's limits.py); `enforce`: refuse what exceeds them, or only count it."""
        await self._ask("limits", **limits)

    async def refusals(self) -> dict[str, int]:
        """How many calls of each kind the limits refused, or would have if enforced."""
        return {name: int(count) for name, count in (await self._ask("refusals")).items()}

    async def set_timing(
        self, *, ack_timeout: float | None = None, retry_delays: Sequence[float] | None = None
    ) -> None:
        """Seconds until an event counts as missed, and before each of its repetitions (see delivery.py for both)."""
        delays = None if retry_delays is None else list(retry_delays)
        await self._ask("timing", ack_timeout=ack_timeout, retry_delays=delays)

    async def wait_connected(
        self, count: int = 1, *, more: bool = False, pings: int = 0, timeout: float = 40.0
    ) -> None:
        """Until the app has exactly `count` open sockets (`more`: or more) that sent `pings` pings."""
        answer = await self._ask("connected", count=count, more=more, pings=pings, wait=timeout)
        if not answer["connected"]:
            raise WaitTimeoutError(f"{answer['links']} sockets instead of {count} after {timeout} s")

    async def _release_held(self, order: Sequence[int] | None) -> int:
        """Let held events go, in an order of positions (None: as they came); returns how many."""
        chosen = None if order is None else list(order)
        return int((await self._ask("release-events", order=chosen))["released"])
