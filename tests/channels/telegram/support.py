"""What the adapter's tests share: a clock that never really waits, a gateway that only listens, a channel to a bot."""

from __future__ import annotations

import asyncio
import itertools
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from channels.base import BotIdentity, ChannelPorts, Route
from channels.telegram.config import TelegramConfig
from tests.simulators.telegram.seen import Room

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from channels.message import ButtonPressed, ChatMigrated, MembershipChanged, Message, MessageEdited, Unparsed
    from channels.telegram.channel import TelegramChannel
    from tests.simulators.telegram.client import TelegramSimulator

    Found = Message | MessageEdited | ButtonPressed | ChatMigrated | MembershipChanged | Unparsed

_numbers = itertools.count(1)


def new_token() -> str:
    """A token that no other test uses, so that each test has a bot of its own."""
    number = next(_numbers)
    return f"{8_000_000_000 + number}:TEST-canary-{number:06d}-do-not-print-this"


def new_group(*, is_forum: bool = False) -> Room:
    """A group that no other test uses: groups are shared by all bots of the simulator."""
    return Room(-1_009_000_000_000 - next(_numbers), "supergroup", "Team", is_forum=is_forum)


@dataclass
class QuickClock:
    """Sleeps pass at once and are remembered."""

    slept: list[float] = field(default_factory=list)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


@dataclass
class Gateway:
    """The other side of the ports: keeps what is published, and can refuse or hold it."""

    clock: QuickClock = field(default_factory=QuickClock)
    events: list[Found] = field(default_factory=list)
    batches: list[list[Found]] = field(default_factory=list)
    refuse: int = 0
    refused: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    greeted: list[BotIdentity] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate.set()

    async def publish(self, events: Sequence[Found]) -> None:
        async with self.changed:
            self.batches.append(list(events))
            self.changed.notify_all()
        await self.gate.wait()
        async with self.changed:
            if self.refuse > 0:
                self.refuse -= 1
                self.refused += 1
                raise RuntimeError("database is locked")
            self.events.extend(events)
            self.changed.notify_all()

    async def hello(self, identity: BotIdentity) -> None:
        self.greeted.append(identity)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that publishing changes; fails after ten seconds."""
        async with asyncio.timeout(10), self.changed:
            await self.changed.wait_for(condition)

    async def event(self, number: int = 0) -> Found:
        """The event with this number, from 0, as soon as it is committed."""
        await self.until(lambda: len(self.events) > number)
        return self.events[number]

    def ports(self) -> ChannelPorts:
        return ChannelPorts(
            publish=self.publish,
            clock=self.clock,
            route=lambda url: Route(),
            log=logging.getLogger("channels.test"),
        )


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
