"""The in-memory channel, in all its modes."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from channels.memory import MemoryChannel, MemoryMode
from channels.message import Address, Message, Sender
from tests.contracts.bench import Bench, Listener, Seen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.contracts.bench import MakeBench, Simulators


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

    async def restart(self) -> None:
        """The channel is the platform too."""


def memory(mode: MemoryMode) -> MakeBench:
    @asynccontextmanager
    async def bench(folder: Path, simulators: Simulators) -> AsyncIterator[Bench]:
        listener = Listener()
        yield MemoryBench(MemoryChannel("memory", listener.ports(), mode), listener)

    return bench
