"""A console channel with a gateway behind it that answers by itself, for tests of this folder and the contract test."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

from bot.clock import SystemClock
from channels.base import ChannelPorts, Route
from channels.console.channel import ConsoleChannel
from channels.console.config import ConsoleConfig
from channels.message import Address, Message, OutboundFile, OutboundMessage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from channels.base import BotIdentity, Publish
    from channels.message import (
        ButtonPressed,
        ChatMigrated,
        HookCalled,
        MembershipChanged,
        MessageEdited,
        ScheduleDue,
        Unparsed,
    )

HOME = Address(account="console", chat="terminal")


def make_channel(folder: Path, publish: Publish) -> ConsoleChannel:
    """A channel whose exports go below `folder`."""
    ports = ChannelPorts(publish=publish, clock=SystemClock(), route=lambda url: Route())
    return ConsoleChannel("console", ConsoleConfig(export_dir=folder / "exports"), ports)


async def hello(identity: BotIdentity) -> None:
    """Accept every account."""


class SmallGateway:
    """Answers each message, streaming: "slow" until /stop, "file" with a file, others by an echo.

    events: all that was published, in order; `wait_for` waits for so many.
    """

    def __init__(self, folder: Path) -> None:
        self.channel = make_channel(folder, self.publish)
        self.events: list[Message] = []
        self._folder = folder
        self._grown = asyncio.Condition()
        self._stopped = asyncio.Event()
        self._answers: set[asyncio.Task[None]] = set()

    async def publish(
        self,
        events: Sequence[
            Message
            | MessageEdited
            | ButtonPressed
            | ChatMigrated
            | MembershipChanged
            | ScheduleDue
            | HookCalled
            | Unparsed
        ],
    ) -> None:
        for event in events:
            assert isinstance(event, Message)
            task = asyncio.create_task(self._answer(event))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)
            async with self._grown:
                self.events.append(event)
                self._grown.notify_all()

    async def wait_for(self, count: int) -> list[Message]:
        """The events once there are so many. Raises TimeoutError."""
        async with asyncio.timeout(5), self._grown:
            await self._grown.wait_for(lambda: len(self.events) >= count)
            return self.events

    async def drain(self) -> None:
        """Wait for all answers."""
        while self._answers:
            await asyncio.gather(*self._answers)

    async def _answer(self, event: Message) -> None:
        match event.text:
            case "/stop":
                self._stopped.set()
                await self.say(event.address, "Stopping.")
            case "file":
                path = self._folder / "made"
                path.write_text("content")
                await self.say(event.address, "Here.", OutboundMessage(files=(OutboundFile(path=path, name="a.txt"),)))
            case "slow":
                await self._slow(event.address)
            case text:
                await self.say(event.address, f"You said: **{text}**")

    async def say(self, address: Address, text: str, extra: OutboundMessage | None = None) -> None:
        """A reply that is sent as a draft and finished by an edit."""
        extra = extra or OutboundMessage()
        key = uuid.uuid4().hex
        (draft,) = self.channel.layout(OutboundMessage(text=text[: len(text) // 2], status="working"))
        message_id = await self.channel.send(address, draft, key)
        first, *more = self.channel.layout(OutboundMessage(text=text, files=extra.files, final=True))
        await self.channel.edit(address, message_id, first)
        for part in more:
            await self.channel.send(address, part, f"{key}:{part.index}")

    async def _slow(self, address: Address) -> None:
        (draft,) = self.channel.layout(OutboundMessage(text="It takes a while", status="thinking"))
        message_id = await self.channel.send(address, draft, uuid.uuid4().hex)
        await self._stopped.wait()
        (final,) = self.channel.layout(OutboundMessage(text="It was stopped.", final=True))
        await self.channel.edit(address, message_id, final)
