"""What the adapter's tests share: a gateway that only listens, a channel to a robot of the simulator."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from channels.message import Address, Message, OutboundMessage
from channels.wecom.config import WecomConfig
from channels.wecom.connection import Timing
from tests.channels.gateway import ListeningGateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from channels.base import BotIdentity, Part
    from channels.wecom.channel import WecomChannel
    from tests.simulators.wecom.client import WecomSimulator

ACCOUNT = "wecom"
QUICK = Timing(ack=0.5, upload=0.5, doubt=0.1, ping=0.2, pong=0.3)
"""For tests in which somebody does not answer."""


@dataclass
class Gateway(ListeningGateway):
    """Can refuse the account as well."""

    refusal: Exception | None = None

    async def hello(self, identity: BotIdentity) -> None:
        if self.refusal is not None:
            raise self.refusal
        await super().hello(identity)


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
