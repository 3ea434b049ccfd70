"""What the adapter's tests share: a clock that never really waits, a gateway that only listens, a channel to an app."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from channels.base import BotIdentity, ChannelPorts, Newest, Route
from channels.message import Address, Message
from channels.slack.config import SlackConfig
from tests.simulators.slack.seen import ALICE, TEAM

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from channels.message import ButtonPressed, ChatMigrated, MembershipChanged, MessageEdited, Unparsed
    from channels.slack.channel import SlackChannel
    from tests.simulators.slack.client import SlackSimulator

    Found = Message | MessageEdited | ButtonPressed | ChatMigrated | MembershipChanged | Unparsed


@dataclass
class QuickClock:
    """Sleeps pass at once and are remembered. ahead: seconds that tests have turned it forward."""

    slept: list[float] = field(default_factory=list)
    ahead: float = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


@dataclass
class Gateway:
    """The other side of the ports: keeps what is published, and can refuse or hold it."""

    clock: QuickClock = field(default_factory=QuickClock)
    events: list[Found] = field(default_factory=list)
    refuse: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    greeted: list[BotIdentity] = field(default_factory=list)
    stored: list[Newest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate.set()

    async def publish(self, events: Sequence[Found]) -> None:
        await self.gate.wait()
        async with self.changed:
            if self.refuse > 0:
                self.refuse -= 1
                raise RuntimeError("database is locked")
            known = {key for event in self.events for key in event.dedupe_keys}
            self.events += [event for event in events if not known & set(event.dedupe_keys)]
            self.changed.notify_all()

    async def hello(self, identity: BotIdentity) -> None:
        async with self.changed:
            self.greeted.append(identity)
            self.changed.notify_all()

    async def newest(self) -> Sequence[Newest]:
        return self.stored

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that publishing changes; fails after ten seconds."""
        async with asyncio.timeout(10), self.changed:
            await self.changed.wait_for(condition)

    async def event(self, number: int = 0) -> Found:
        """The event with this number, from 0, as soon as it is committed."""
        await self.until(lambda: len(self.events) > number)
        return self.events[number]

    async def message(self, number: int = 0) -> Message:
        """The same, for an event that is a message."""
        event = await self.event(number)
        assert isinstance(event, Message)
        return event

    @property
    def texts(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Message)]

    def ports(self) -> ChannelPorts:
        return ChannelPorts(
            publish=self.publish,
            clock=self.clock,
            route=lambda url: Route(),
            log=logging.getLogger("channels.test"),
            newest=self.newest,
        )


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
            greeted = asyncio.create_task(self.gateway.until(lambda: bool(self.gateway.greeted)))
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
    return SlackConfig.model_validate({**tokens, "ping_interval": 0.5, **settings})
