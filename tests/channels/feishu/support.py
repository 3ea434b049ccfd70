"""What the adapter's tests share: a clock that never really waits, a gateway that only listens, a channel to an app."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from channels.base import BotIdentity, ChannelPorts, Newest, Route
from channels.feishu.channel import FeishuChannel
from channels.feishu.config import FeishuConfig
from channels.message import Address, OutboundMessage
from tests.simulators.feishu.seen import ALICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from channels.base import Part
    from channels.message import ButtonPressed, ChatMigrated, MembershipChanged, Message, MessageEdited, Unparsed
    from tests.simulators.feishu.client import FeishuSimulator

    Found = Message | MessageEdited | ButtonPressed | ChatMigrated | MembershipChanged | Unparsed


@dataclass
class QuickClock:
    """Sleeps pass at once (unless it is `stopped`) and are remembered; tests turn it forward by `ahead` seconds."""

    ahead: float = 0.0
    stopped: bool = False
    slept: list[float] = field(default_factory=list)
    sleeping: asyncio.Event = field(default_factory=asyncio.Event)

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.ahead)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.sleeping.set()
        await (asyncio.Event().wait() if self.stopped else asyncio.sleep(0))


@dataclass
class Gateway:
    """The other side of the ports: keeps what is published, and can refuse or hold it."""

    clock: QuickClock = field(default_factory=QuickClock)
    events: list[Found] = field(default_factory=list)
    newest: list[Newest] = field(default_factory=list)
    refuse: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    greeted: list[BotIdentity] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate.set()

    async def publish(self, events: Sequence[Found]) -> None:
        await self.gate.wait()
        async with self.changed:
            if self.refuse > 0:
                self.refuse -= 1
                raise RuntimeError("database is locked")
            self.events.extend(events)
            self.changed.notify_all()

    async def hello(self, identity: BotIdentity) -> None:
        self.greeted.append(identity)

    async def event(self, number: int = 0) -> Found:
        """The event with this number, from 0, as soon as it is committed."""
        async with asyncio.timeout(10), self.changed:
            await self.changed.wait_for(lambda: len(self.events) > number)
        return self.events[number]

    async def known(self) -> Sequence[Newest]:
        return self.newest

    def ports(self) -> ChannelPorts:
        return ChannelPorts(
            publish=self.publish,
            clock=self.clock,
            route=lambda url: Route(),
            log=logging.getLogger("channels.test"),
            newest=self.known,
        )


@dataclass
class Bench:
    """One app on the simulator with its channel."""

    feishu: FeishuSimulator
    gateway: Gateway
    channel: FeishuChannel

    @property
    def dm(self) -> Address:
        return Address(account="feishu", chat=self.feishu.chat_id(ALICE))

    def part(self, text: str, **more: Any) -> Part:
        """The only part of a finished answer with this text; `final=False` for one that grows."""
        (part,) = self.channel.layout(OutboundMessage(text=text, **({"final": True} | more)))
        return part

    async def methods(self) -> list[str]:
        """The calls so far that changed something."""
        return [record.method for record in await self.feishu.records() if record.http_method != "GET"]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        """The channel receives inside this block; its socket is open."""
        task = asyncio.create_task(self.channel.run(self.gateway.hello))
        try:
            await self.feishu.wait_connected(pings=1)
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def config_for(feishu: FeishuSimulator, **settings: Any) -> FeishuConfig:
    credentials = {"app_id": feishu.app_id, "app_secret": feishu.app_secret, "domain": feishu.domain}
    return FeishuConfig.model_validate({**credentials, **settings})


def bench_for(feishu: FeishuSimulator, gateway: Gateway | None = None, **settings: Any) -> Bench:
    listening = gateway or Gateway()
    return Bench(feishu, listening, FeishuChannel("feishu", config_for(feishu, **settings), listening.ports()))
