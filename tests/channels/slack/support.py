"""What the adapter's tests share: a gateway that only listens, a channel to an app."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from channels.message import Address, Message
from channels.slack.config import SlackConfig
from tests.channels.gateway import ListeningGateway
from tests.simulators.slack.seen import ALICE, TEAM

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from channels.message import InboundEvent
    from channels.slack.channel import SlackChannel
    from tests.simulators.slack.client import SlackSimulator


@dataclass
class Gateway(ListeningGateway):
    """Keeps what is published only once, as the real one does, and tells messages from other events."""

    def unknown(self, events: Sequence[InboundEvent]) -> Sequence[InboundEvent]:
        known = {key for event in self.events for key in event.dedupe_keys}
        return [event for event in events if not known & set(event.dedupe_keys)]

    async def message(self, number: int = 0) -> Message:
        """The same as `event`, for one that is a message."""
        event = await self.event(number)
        assert isinstance(event, Message)
        return event

    @property
    def texts(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Message)]


@dataclass
class Bench:
    """One app on the simulator with its channel."""

    slack: SlackSimulator
    gateway: Gateway
    channel: SlackChannel

    @property
    def dm(self) -> Address:
        return Address(account="slack", chat=self.slack.channel_id(ALICE))

    def thread(self, ts: str) -> Address:
        return Address(account="slack", chat=TEAM.id, topic=ts, kind="group")

    async def sent_params(self, method: str) -> list[dict[str, Any]]:
        return [record.params for record in await self.slack.records(method)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        """The channel receives inside this block."""
        task = asyncio.create_task(self.channel.run(self.gateway.hello))
        try:
            greeted = asyncio.create_task(self.gateway.said_hello())
            await asyncio.wait({task, greeted}, return_when=asyncio.FIRST_COMPLETED)
            greeted.cancel()
            if task.done():
                task.result()
            yield task
        finally:
            task.cancel()
            await asyncio.wait([task])


def config_for(slack: SlackSimulator, **settings: Any) -> SlackConfig:
    tokens = {"bot_token": slack.bot_token, "app_token": slack.app_token, "base_url": slack.api_url}
    return SlackConfig.model_validate({**tokens, **settings})
