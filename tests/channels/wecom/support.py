"""What the adapter's tests share: a gateway that only listens, a channel to a robot of the simulator."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from channels.base import BotIdentity, ChannelPorts, Part, Route
from channels.message import Address, Message, OutboundMessage
from channels.wecom.config import WecomConfig
from channels.wecom.connection import Timing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from channels.message import InboundEvent
    from channels.wecom.channel import WecomChannel
    from tests.simulators.wecom.client import WecomSimulator

ACCOUNT = "wecom"
QUICK = Timing(ack=0.5, upload=0.5, doubt=0.1, ping=0.2, pong=0.3)
"""For tests in which somebody does not answer."""


@dataclass
class QuickClock:
    """Sleeps pass at once and are remembered."""

    slept: list[float] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        async with self.changed:
            self.slept.append(seconds)
            self.changed.notify_all()

    async def slept_often(self, times: int) -> None:
        """Until there were so many sleeps."""
        async with asyncio.timeout(20), self.changed:
            await self.changed.wait_for(lambda: len(self.slept) >= times)


@dataclass
class Gateway:
    """The other side of the ports: keeps what is published, and can refuse or hold it."""

    clock: QuickClock = field(default_factory=QuickClock)
    events: list[InboundEvent] = field(default_factory=list)
    refuse: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    greeted: list[BotIdentity] = field(default_factory=list)
    refusal: Exception | None = None

    def __post_init__(self) -> None:
        self.gate.set()

    async def publish(self, events: Sequence[InboundEvent]) -> None:
        await self.gate.wait()
        async with self.changed:
            if self.refuse > 0:
                self.refuse -= 1
                raise RuntimeError("database is locked")
            self.events.extend(events)
            self.changed.notify_all()

    async def hello(self, identity: BotIdentity) -> None:
        if self.refusal is not None:
            raise self.refusal
        async with self.changed:
            self.greeted.append(identity)
            self.changed.notify_all()

    async def said_hello(self) -> None:
        """The channel was accepted."""
        async with asyncio.timeout(20), self.changed:
            await self.changed.wait_for(lambda: bool(self.greeted))

    async def event(self, number: int = 0) -> InboundEvent:
        """The event with this number, from 0, as soon as it is committed."""
        async with asyncio.timeout(20), self.changed:
            await self.changed.wait_for(lambda: len(self.events) > number)
        return self.events[number]

    def ports(self) -> ChannelPorts:
        log = logging.getLogger("channels.test")
        return ChannelPorts(publish=self.publish, clock=self.clock, route=lambda url: Route(), log=log)


@dataclass
class Bench:
    """One robot on the simulator with its channel."""

    wecom: WecomSimulator
    gateway: Gateway
    channel: WecomChannel

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        """The channel receives inside this block."""
        task = asyncio.create_task(self.channel.run(self.gateway.hello))
        try:
            await self.gateway.said_hello()
            yield task
        finally:
            task.cancel()
            await asyncio.wait([task])


def address(chat: str = "alice", kind: str = "dm") -> Address:
    return Address(account=ACCOUNT, chat=chat, kind="group" if kind == "group" else "dm")


def only(bench: Bench, text: str, **more: Any) -> Part:
    """The single part of a final with that text."""
    (part,) = bench.channel.layout(replace(OutboundMessage(text=text, final=True), **more))
    return part


async def asked(bench: Bench, text: str = "Hello", number: int = 0) -> str:
    """Somebody wrote, as the event with this number; the id to answer."""
    await bench.wecom.says(text)
    event = await bench.gateway.event(number)
    assert isinstance(event, Message)
    return event.platform_message_id


def config_for(wecom: WecomSimulator, **settings: Any) -> WecomConfig:
    given = {"bot_id": wecom.bot_id, "secret": wecom.secret, "url": wecom.url, "bot_name": wecom.name}
    return WecomConfig.model_validate(given | settings)


@dataclass
class Bytes:
    """A NamedSink."""

    content: bytes = b""
    name: str = ""

    def called(self, name: str) -> None:
        self.name = name

    async def write(self, chunk: bytes) -> None:
        self.content += chunk
