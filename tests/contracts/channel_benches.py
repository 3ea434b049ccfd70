"""The platforms that the channel contract runs on; a new one is one function here and one line in BENCHES."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from bot.clock import SystemClock
from channels.base import BotIdentity, Channel, ChannelPorts, Route
from channels.console.channel import ConsoleChannel
from channels.console.config import ConsoleConfig
from channels.console.frames import Input, Line, Removed, Shown
from channels.memory import APPEND_ONLY, FULL, NO_EDIT, NO_IDEMPOTENCY, MemoryChannel, MemoryMode
from channels.message import Address, Message, Sender
from channels.telegram.channel import TelegramChannel
from channels.telegram.config import TelegramConfig
from tests.simulators.telegram.client import connect
from tests.simulators.telegram.seen import ALICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from channels.console.frames import Frame
    from channels.message import ButtonPressed, ChatMigrated, MembershipChanged, MessageEdited, Unparsed
    from tests.simulators.process import SimulatorProcess
    from tests.simulators.telegram.client import TelegramSimulator

    MakeBench = Callable[[Path, SimulatorProcess], AbstractAsyncContextManager["Bench"]]
    Published = Message | MessageEdited | ButtonPressed | ChatMigrated | MembershipChanged | Unparsed

_bots = itertools.count(8_500_000_001)


@dataclass(frozen=True)
class Seen:
    """A message as the person in the chat sees it."""

    message_id: str
    text: str
    labels: tuple[str, ...] = ()
    file: bool = False


@dataclass
class Listener:
    """The gateway's end of the ports: keeps what arrives."""

    events: list[Published] = field(default_factory=list)
    greeted: list[BotIdentity] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def publish(self, events: Sequence[Published]) -> None:
        async with self.changed:
            self.events.extend(events)
            self.changed.notify_all()

    async def hello(self, identity: BotIdentity) -> None:
        async with self.changed:
            self.greeted.append(identity)
            self.changed.notify_all()

    @property
    def messages(self) -> list[Message]:
        return [event for event in self.events if isinstance(event, Message)]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10), self.changed:
            await self.changed.wait_for(condition)

    def ports(self) -> ChannelPorts:
        return ChannelPorts(publish=self.publish, clock=SystemClock(), route=lambda url: Route())


class Bench(Protocol):
    """One channel, and the platform's side of it. dm: a chat with a person who has written to the bot."""

    @property
    def channel(self) -> Channel: ...
    @property
    def listener(self) -> Listener: ...
    @property
    def dm(self) -> Address: ...

    async def seen(self) -> list[Seen]:
        """What the chat shows, in its order."""

    async def says(self, text: str) -> None:
        """The person writes."""

    async def restart(self) -> None:
        """`channel` is another process's from now on; the platform goes on."""


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
    async def bench(folder: Path, simulator: SimulatorProcess) -> AsyncIterator[Bench]:
        listener = Listener()
        yield MemoryBench(MemoryChannel("memory", listener.ports(), mode), listener)

    return bench


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
                    shown[frame.message_id] = Seen(frame.message_id, text, frame.buttons, frame.file is not None)
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
async def console(folder: Path, simulator: SimulatorProcess) -> AsyncIterator[Bench]:
    listener, terminal = Listener(), Terminal()
    channel = ConsoleChannel("console", ConsoleConfig(export_dir=folder / "exports"), listener.ports())
    channel.attach(terminal, owner=True)
    yield ConsoleBench(channel, listener, terminal)
    await channel.close()


@dataclass
class TelegramBench:
    config: TelegramConfig
    listener: Listener
    simulator: TelegramSimulator
    dm: Address = field(default_factory=lambda: Address(account="telegram", chat=str(ALICE.id)))

    def __post_init__(self) -> None:
        self.channel = TelegramChannel("telegram", self.config, self.listener.ports())

    async def seen(self) -> list[Seen]:
        return [
            Seen(str(m.message_id), m.text, tuple(button["text"] for button in m.buttons), bool(m.files))
            for m in await self.simulator.bot_messages(ALICE)
        ]

    async def says(self, text: str) -> None:
        await self.simulator.user_says(text)

    async def restart(self) -> None:
        await self.channel.close()
        self.channel = TelegramChannel("telegram", self.config, self.listener.ports())


def telegram(**settings: Any) -> MakeBench:
    @asynccontextmanager
    async def bench(folder: Path, simulator: SimulatorProcess) -> AsyncIterator[Bench]:
        async with connect(simulator) as client:
            bot = await client.add_bot(f"{next(_bots)}:CONTRACT-bot-token-{'0' * 25}")
            await bot.user_says("/start")
            config = TelegramConfig.model_validate({"token": bot.token, "base_url": bot.root, **settings})
            made = TelegramBench(config, Listener(), bot)
            yield made
            await made.channel.close()

    return bench


BENCHES: dict[str, MakeBench] = {
    "memory": memory(FULL),
    "memory append-only": memory(APPEND_ONLY),
    "memory no-edit": memory(NO_EDIT),
    "memory no-idempotency": memory(NO_IDEMPOTENCY),
    "memory previews": memory(MemoryMode(previews=True)),
    "console": console,
    "telegram": telegram(),
    "telegram drafts": telegram(streaming="draft", adopt_placeholders=True),
}
