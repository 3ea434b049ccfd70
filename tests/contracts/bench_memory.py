"""The in-memory channel, in all its modes."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from channels.errors import (
    ChatGone,
    EditRefused,
    Fatal,
    MessageGone,
    NotAllowed,
    Rejected,
    TopicClosed,
)
from channels.message import Address, Message, Sender
from tests.contracts.bench import Bench, Listener, Refusal, Seen, Stage
from tests.memory_channel import MemoryChannel, MemoryMode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from channels.errors import ChannelError
    from tests.contracts.bench import MakeBench, Simulators, Told


def _send(error: ChannelError, told: Told, times: int = 1) -> Refusal[MemoryChannel]:
    return Refusal(
        f"{type(error).__name__} to a send", "send", lambda channel: _fail(channel, "send", error, times), told
    )


def _edit(error: ChannelError, told: Told = "all", times: int = 20) -> Refusal[MemoryChannel]:
    return Refusal(
        f"{type(error).__name__} to an edit", "edit", lambda channel: _fail(channel, "edit", error, times), told
    )


def _file(error: ChannelError) -> Refusal[MemoryChannel]:
    return Refusal(
        f"{type(error).__name__} to a file", "file", lambda channel: _fail(channel, "send", error), "no file"
    )


async def _fail(channel: MemoryChannel, method: str, error: ChannelError, times: int = 1) -> None:
    channel.fail(method, *[error] * times, chat="group")


REFUSALS: tuple[Refusal[MemoryChannel], ...] = (
    _send(TopicClosed("closed"), "outside"),
    _send(ChatGone("kicked"), "nothing"),
    _send(Rejected("too long"), "no words", times=2),
    _send(Fatal("401", "a new token"), "all"),
    _send(MessageGone("what it answers was deleted"), "all"),
    _edit(EditRefused("too old")),
    _edit(NotAllowed("no scope", "add it")),
    _edit(MessageGone("deleted"), times=1),
    _edit(Rejected("refused")),
    _edit(TopicClosed("closed")),
    _edit(Fatal("401", "a new token"), times=1),
    _file(NotAllowed("no scope", "add it")),
    _file(Rejected("no such kind")),
    _file(TopicClosed("no right to send files")),
    _file(ChatGone("no right to send files")),
    Refusal(
        "Rejected to buttons", "buttons", lambda channel: _fail(channel, "send", Rejected("no buttons")), "numbers"
    ),
)


@dataclass
class MemoryBench:
    channel: MemoryChannel
    listener: Listener
    dm: Address = field(default_factory=lambda: Address(account="memory", chat="alice"))

    async def seen(self) -> list[Seen]:
        return [
            Seen(
                bubble.message_id,
                bubble.text,
                tuple(button.label for row in bubble.part.buttons for button in row),
                bubble.part.file is not None,
            )
            for bubble in self.channel.chats.get(self.dm.chat, [])
        ]

    async def says(self, text: str) -> None:
        now = datetime.now(UTC)
        await self.channel.receive(
            Message(
                account="memory",
                dedupe_keys=("m:1",),
                sent_at=now,
                received_at=now,
                address=self.dm,
                platform_message_id="p1",
                sender=Sender(id="alice", display_name="Alice"),
                text=text,
                mention=True,
            )
        )

    refusals = REFUSALS

    @property
    def platform(self) -> MemoryChannel:
        return self.channel

    async def stage(self) -> Stage:
        affected, other = (
            Address(account="memory", chat="group", topic=topic, kind="group") for topic in ("one", "two")
        )
        return Stage(affected, (other, self.dm))

    async def shown(self, address: Address) -> list[str]:
        return self.channel.texts(address.chat)

    async def restart(self) -> None:
        """The channel is the platform too."""


def memory(mode: MemoryMode) -> MakeBench:
    @asynccontextmanager
    async def bench(folder: Path, simulators: Simulators) -> AsyncIterator[Bench]:
        listener = Listener()
        yield MemoryBench(MemoryChannel("memory", listener.ports(), mode), listener)

    return bench
