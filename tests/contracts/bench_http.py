"""The page and the API."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from channels.http.channel import HttpChannel, Posting
from channels.http.config import HttpConfig
from channels.message import Address, Sender
from tests.contracts.bench import Bench, Listener, Seen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.contracts.bench import MakeBench, Simulators


@dataclass
class HttpBench:
    channel: HttpChannel
    listener: Listener
    dm: Address = field(default_factory=lambda: Address(account="web", chat="0123456789abcdef-chat"))
    said: int = 0

    async def seen(self) -> list[Seen]:
        return [
            Seen(
                shown.message_id,
                "\n".join(part for part in (shown.text, shown.status) if part),
                labels=tuple(label for row in shown.buttons for label, _ in row),
                file=shown.file is not None,
            )
            for shown in self.channel.board(self.dm.chat).messages
        ]

    async def says(self, text: str) -> None:
        self.said += 1
        sender = Sender(id="local", display_name="")
        await self.channel.post(Posting(chat=self.dm.chat, sender=sender, text=text, client_id=str(self.said)))

    async def restart(self) -> None:
        raise AssertionError("there is nothing to look for after a restart")


def http() -> MakeBench:
    @asynccontextmanager
    async def make(folder: Path, simulators: Simulators) -> AsyncIterator[Bench]:
        listener = Listener()
        channel = HttpChannel("web", HttpConfig(uploads=folder), listener.ports())
        yield HttpBench(channel, listener)
        await channel.close()

    return make
