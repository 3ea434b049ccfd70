"""The terminal."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from channels.console.channel import ConsoleChannel
from channels.console.config import ConsoleConfig
from channels.console.frames import Input, Line, Removed, Shown
from channels.message import Address
from tests.contracts.bench import Bench, Listener, Seen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from channels.console.frames import Frame
    from tests.contracts.bench import Simulators


class Terminal:
    """A ConsoleLink whose frames are kept and whose person types when told."""

    session = "contract"

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.typed: asyncio.Queue[Input] = asyncio.Queue()

    async def receive(self) -> Input | None:
        return await self.typed.get()

    def show(self, frame: Frame) -> bool:
        self.frames.append(frame)
        return True

    def close(self) -> None:
        return None


@dataclass
class ConsoleBench:
    channel: ConsoleChannel
    listener: Listener
    terminal: Terminal
    dm: Address = field(default_factory=lambda: Address(account="console", chat="terminal"))

    async def seen(self) -> list[Seen]:
        shown: dict[str, Seen] = {}
        for frame in self.terminal.frames:
            match frame:
                case Shown():
                    text = "\n".join(part for part in (frame.text, frame.status) if part)
                    shown[frame.message_id] = Seen(frame.message_id, text, file=frame.file is not None)
                case Removed():
                    shown.pop(frame.message_id, None)
                case _:
                    pass
        return list(shown.values())

    async def says(self, text: str) -> None:
        await self.terminal.typed.put(Line(number=1, text=text, at=datetime.now(UTC)))

    async def restart(self) -> None:
        raise AssertionError("a terminal has nothing to look for after a restart")


@asynccontextmanager
async def console(folder: Path, simulators: Simulators) -> AsyncIterator[Bench]:
    listener, terminal = Listener(), Terminal()
    channel = ConsoleChannel("console", ConsoleConfig(export_dir=folder / "exports"), listener.ports())
    channel.attach(terminal, owner=True)
    yield ConsoleBench(channel, listener, terminal)
    await channel.close()
