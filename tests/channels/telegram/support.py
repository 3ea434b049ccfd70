"""What the adapter's tests share: a gateway that only listens, a channel to a bot."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from channels.telegram.config import TelegramConfig
from tests.channels.gateway import ListeningGateway
from tests.simulators.telegram.seen import Room

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from channels.message import InboundEvent
    from channels.telegram.channel import TelegramChannel
    from tests.simulators.telegram.client import TelegramSimulator

_numbers = itertools.count(1)


def new_token() -> str:
    """A token that no other test uses, so that each test has a bot of its own."""
    number = next(_numbers)
    return f"{8_000_000_000 + number}:TEST-canary-{number:06d}-do-not-print-this"


def new_group(*, is_forum: bool = False) -> Room:
    """A group that no other test uses: groups are shared by all bots of the simulator."""
    return Room(-1_009_000_000_000 - next(_numbers), "supergroup", "Team", is_forum=is_forum)


@dataclass
class Gateway(ListeningGateway):
    """Remembers each batch too, from when it is offered on."""

    batches: list[Sequence[InboundEvent]] = field(default_factory=list)

    async def publish(self, events: Sequence[InboundEvent]) -> None:
        async with self.changed:
            self.batches.append(events)
            self.changed.notify_all()
        await super().publish(events)


@dataclass
class Bench:
    """One bot on the simulator with its channel."""

    telegram: TelegramSimulator
    gateway: Gateway
    channel: TelegramChannel

    async def sent_params(self, method: str) -> list[dict[str, Any]]:
        return [record.params for record in await self.telegram.records(method)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        """The channel receives inside this block."""
        task = asyncio.create_task(self.channel.run(self.gateway.hello))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait([task])


def config_for(telegram: TelegramSimulator, **settings: Any) -> TelegramConfig:
    return TelegramConfig.model_validate({"token": telegram.token, "base_url": telegram.root, **settings})
