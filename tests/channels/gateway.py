"""The other side of an adapter's ports: a clock that never really waits and a gateway that only listens.

The adapters' support.py build on it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from channels.base import BotIdentity, ChannelPorts, Newest, Route

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from channels.message import InboundEvent

SECONDS = 45.0
"""How long a test waits for what must come; matters only when it does not."""


@dataclass
class QuickClock:
    """Sleeps pass at once (unless it is `stopped`) and are remembered; tests turn it forward by `ahead` seconds."""

    ahead: float = 0.0
    stopped: bool = False
    slept: list[float] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.ahead)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead

    async def sleep(self, seconds: float) -> None:
        async with self.changed:
            self.slept.append(seconds)
            self.changed.notify_all()
        await (asyncio.Event().wait() if self.stopped else asyncio.sleep(0))

    async def slept_often(self, times: int) -> None:
        """Until there were so many sleeps."""
        async with asyncio.timeout(SECONDS), self.changed:
            await self.changed.wait_for(lambda: len(self.slept) >= times)


@dataclass
class ListeningGateway:
    """Keeps what is published, and can refuse or hold it.

    refuse: how many batches from now on; refused: how many were. gate: closed, it holds them. stored: what the
    gateway knows of the chats. greeted: as whom the channel came.
    """

    clock: QuickClock = field(default_factory=QuickClock)
    events: list[InboundEvent] = field(default_factory=list)
    stored: list[Newest] = field(default_factory=list)
    refuse: int = 0
    refused: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    greeted: list[BotIdentity] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate.set()

    async def publish(self, events: Sequence[InboundEvent]) -> None:
        await self.gate.wait()
        async with self.changed:
            if self.refuse > 0:
                self.refuse -= 1
                self.refused += 1
                raise RuntimeError("database is locked")
            self.events += self.unknown(events)
            self.changed.notify_all()

    def unknown(self, events: Sequence[InboundEvent]) -> Sequence[InboundEvent]:
        """Those that are to be kept: here all of them."""
        return events

    async def hello(self, identity: BotIdentity) -> None:
        async with self.changed:
            self.greeted.append(identity)
            self.changed.notify_all()

    async def newest(self) -> Sequence[Newest]:
        return self.stored

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that the channel's calls change. Raises TimeoutError."""
        async with asyncio.timeout(SECONDS), self.changed:
            await self.changed.wait_for(condition)

    async def said_hello(self) -> None:
        """The channel was accepted."""
        await self.until(lambda: bool(self.greeted))

    async def event(self, number: int = 0) -> InboundEvent:
        """The event with this number, from 0, as soon as it is committed."""
        await self.until(lambda: len(self.events) > number)
        return self.events[number]

    def ports(self, route: Route | None = None) -> ChannelPorts:
        """For the channel; route: its way to the platform, if not straight."""
        way = route or Route()
        return ChannelPorts(
            publish=self.publish,
            clock=self.clock,
            route=lambda url: way,
            log=logging.getLogger("channels.test"),
            newest=self.newest,
        )
