"""What the channel contract needs of a platform: a bench, which holds one channel and the platform's side of it.

A platform's bench lives in its own `bench_<platform>.py`; `channel_benches.py` lists them all.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from bot.clock import SystemClock
from channels.base import BotIdentity, Channel, ChannelPorts, Route
from channels.message import Address, Message
from tests.simulators.process import SimulatorProcess

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path
    from types import TracebackType

    from channels.message import (
        ButtonPressed,
        ChatMigrated,
        HookCalled,
        MembershipChanged,
        MessageEdited,
        ScheduleDue,
        Unparsed,
    )

    MakeBench = Callable[[Path, "Simulators"], AbstractAsyncContextManager["Bench"]]
    """Makes a bench: a folder of its own, and the simulators that it may ask for."""
    Published = (
        Message | MessageEdited | ButtonPressed | ChatMigrated | MembershipChanged | ScheduleDue | HookCalled | Unparsed
    )


PlatformT = TypeVar("PlatformT")


class Simulators:
    """The platforms' simulators, each in its own process, started when the first bench asks for it."""

    def __init__(self) -> None:
        self._running: dict[str, SimulatorProcess] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Simulators:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def running(self, module: str) -> SimulatorProcess:
        """The process of the simulator that `python -m module` starts."""
        if module not in self._running:
            self._running[module] = self._stack.enter_context(SimulatorProcess(module))
        return self._running[module]


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


Step = Literal["send", "edit", "file", "buttons"]
Told = Literal["all", "no file", "no words", "outside", "numbers", "nothing"]


@dataclass(frozen=True)
class Refusal(Generic[PlatformT]):
    """A refusal that a platform documents for one call.

    step: what delivery does when it meets it. inject: queues it, so that the first call of that kind meets it. told:
    what the affected chat shows then: all of the answer; the answer with a sentence for its file; a sentence for its
    words; a sentence outside the topic; numbers for its buttons; nothing, since the chat is closed. first: it would
    meet other chats as well, so they speak afterwards.
    """

    name: str
    step: Step
    inject: Callable[[PlatformT], Awaitable[None]]
    told: Told = "all"
    first: bool = False


@dataclass(frozen=True)
class Stage:
    """Where it is said. reply_to: the message that is answered in `affected`. others: of the same account."""

    affected: Address
    others: tuple[Address, ...]
    reply_to: str | None = None


class Staged(Protocol):
    """A bench of which delivery's behaviour is tested too. refusals: the platform's table."""

    @property
    def channel(self) -> Channel: ...
    @property
    def refusals(self) -> tuple[Refusal[Any], ...]: ...
    @property
    def platform(self) -> Any:
        """What `Refusal.inject` takes."""

    async def stage(self) -> Stage: ...
    async def shown(self, address: Address) -> list[str]:
        """The texts of the bot in this chat, those of all its topics."""


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
