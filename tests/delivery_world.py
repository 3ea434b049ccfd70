"""A delivery with a real store, an in-memory channel and a virtual clock."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from bot.delivery import Delivery
from bot.redaction import Redactor
from bot.store.store import Store
from channels.base import ChannelPorts, Route
from channels.capabilities import Rate
from channels.errors import MessageGone, OutcomeUnknown, RateLimited, Temporary
from channels.message import Address, OutboundMessage
from channels.telegram.sightings import Sightings
from tests.clock import VirtualClock
from tests.memory_channel import FULL, MemoryChannel, MemoryMode
from tests.stores import lay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
    from pathlib import Path

    from sqlalchemy import Connection

    from bot.store.sql import Bulk
    from channels.base import LiveReply, Part, Probe

T = TypeVar("T")

SECRET = "sk-0123456789abcdef"
RATE = Rate(per_second=30, per_chat_per_second=1, per_group_per_minute=20)


@dataclass
class Tripwire:
    """Stops the `at`-th call of `step` and all later ones for ever: the moment at which a test kills the process."""

    at: int = 0
    passed: int = 0
    tripped: asyncio.Event = field(default_factory=asyncio.Event)

    async def step(self) -> None:
        self.passed += 1
        if self.passed == self.at:
            self.tripped.set()
        if self.tripped.is_set():
            await asyncio.Event().wait()


class WatchedStore(Store):
    """A store that reports when it is busy, so that the virtual clock waits for its threads."""

    at_work = 0
    tripwire = Tripwire()

    def __init__(self, *arguments: Any, **further: Any) -> None:
        super().__init__(*arguments, **further)
        self.writing = asyncio.Event()
        """Set by the first write."""

    async def write(self, unit: Callable[[Connection], Any], *, within: float = 0.0) -> Any:
        await self.tripwire.step()
        self.at_work += 1
        self.writing.set()
        try:
            result = await super().write(unit, within=within)
        finally:
            self.at_work -= 1
        await self.tripwire.step()
        return result

    async def add(self, bulk: Bulk[Any, Any], rows: Sequence[Any], *, within: float = 0.0) -> list[Any]:
        await self.tripwire.step()
        self.at_work += 1
        try:
            results = await super().add(bulk, rows, within=within)
        finally:
            self.at_work -= 1
        await self.tripwire.step()
        return results

    async def read(self, query: Callable[[Connection], Any]) -> Any:
        self.at_work += 1
        try:
            return await super().read(query)
        finally:
            self.at_work -= 1


class WatchedChannel(MemoryChannel):
    """A channel that passes the tripwire before and after each call, and records its rate limits by chat."""

    tripwire = Tripwire()

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.limits: list[tuple[str, float, float]] = []

    async def send(
        self, address: Address, part: Part, idem_key: str, reply_to: str | None = None, *, silent: bool = False
    ) -> str:
        return await self._watched(address, partial(super().send, address, part, idem_key, reply_to, silent=silent))

    async def edit(self, address: Address, message_id: str, part: Part) -> None:
        await self._watched(address, partial(super().edit, address, message_id, part))

    async def delete(self, address: Address, message_id: str) -> None:
        await self._watched(address, partial(super().delete, address, message_id))

    async def open_stream(self, address: Address, idem_key: str, reply_to: str | None) -> LiveReply:
        return await self._watched(address, partial(super().open_stream, address, idem_key, reply_to))

    async def _watched(self, address: Address, call: Callable[[], Awaitable[T]]) -> T:
        await self.tripwire.step()
        began = self.monotonic()
        try:
            result = await call()
        except RateLimited as error:
            self.limits.append((address.chat, began, began + error.retry_after))
            raise
        await self.tripwire.step()
        return result


class ProbedChannel(WatchedChannel):
    """A platform like Telegram: ids increase over all chats, and a lost message is found by editing candidates."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.sightings = Sightings()
        self.from_people: list[tuple[str, int]] = []

    def write(self, chat: str, *, seen: bool = True) -> str:
        """Let a person write; return the id. seen: it reached the gateway and is in the inbox."""
        message_id = self.next_id()
        if seen:
            self.from_people.append((chat, _number(message_id)))
            self.sightings.see(*self.from_people[-1])
        return message_id

    def forget(self) -> None:
        """Forget everything except the inbox, as for a new process."""
        self.sightings = Sightings()
        for chat, number in self.from_people:
            self.sightings.see(chat, number)

    def newest(self, address: Address) -> str | None:
        newest = self.sightings.newest(address.chat)
        return None if newest is None else f"m{newest}"

    def recall(self, known: Iterable[tuple[str, str]]) -> None:
        for chat, message_id in known:
            self.sightings.see(chat, _number(message_id))

    async def send(
        self, address: Address, part: Part, idem_key: str, reply_to: str | None = None, *, silent: bool = False
    ) -> str:
        newest = self.sightings.newest(address.chat)
        try:
            message_id = await super().send(address, part, idem_key, reply_to, silent=silent)
        except OutcomeUnknown:
            self.sightings.lost(idem_key, address.chat, newest)
            raise
        self.sightings.sent(idem_key, address.chat, _number(message_id), newest)
        return message_id

    async def find(self, address: Address, part: Part, probe: Probe) -> str | None:
        accepts = partial(self._accepts, address, part)
        after = None if probe.after is None else _number(probe.after)
        found = await self.sightings.find(probe.idem_key, address.chat, after, accepts)
        return None if found is None else f"m{found}"

    async def _accepts(self, address: Address, part: Part, candidate: int) -> bool:
        try:
            await self.edit(address, f"m{candidate}", part)
        except MessageGone:
            return False
        except OutcomeUnknown as error:
            raise Temporary(str(error)) from error  # may be repeated
        return True


def _number(message_id: str) -> int:
    return int(message_id.removeprefix("m"))


@dataclass
class World:
    """One gateway's delivery, and its platform, which survives it."""

    url: str
    clock: VirtualClock
    store: WatchedStore
    channel: WatchedChannel
    delivery: Delivery
    leased: bool = True
    moved: list[tuple[str, str, str]] = field(default_factory=list)

    async def restart(self, *, connect: bool = True) -> None:
        await self.die()
        await self.begin_anew(connect=connect)

    async def die(self) -> None:
        """End the process at this moment: a close without grace writes and sends nothing."""
        await self.delivery.close(0)
        await self.store.close()

    async def begin_anew(self, *, connect: bool = True) -> None:
        """Start the next process."""
        if isinstance(self.channel, ProbedChannel):
            self.channel.forget()
        self.store = await open_store(self.url, self.clock)
        self.delivery = self.new_delivery()
        if connect:
            self.delivery.register(self.channel)
        await self.delivery.start()

    def arm(self, at: int) -> Tripwire:
        """Stop the process at its `at`-th step from now on (0: never)."""
        self.store.tripwire = self.channel.tripwire = Tripwire(at)
        return self.store.tripwire

    def new_delivery(self) -> Delivery:
        return Delivery(
            self.store, self.clock, Redactor([SECRET]), lambda: self.leased, lambda *move: self.moved.append(move)
        )

    async def say(self, text: str, key: str = "r1", chat: str = "1", **more: Any) -> None:
        await self.delivery.say(key, dm(chat), None, OutboundMessage(text=text, final=True, **more))

    async def drained(self) -> None:
        await self.clock.until(self.delivery.drained())

    @property
    def texts(self) -> list[str]:
        return self.channel.texts("1")

    def calls(self, *methods: str, chat: str | None = None) -> list[float]:
        """Times of calls to the platform."""
        return [
            call.at
            for call in self.channel.calls
            if (not methods or call.method in methods) and (chat is None or call.chat == chat)
        ]


def dm(chat: str = "1") -> Address:
    return Address(account="memory", chat=chat, kind="dm")


def group(chat: str = "g") -> Address:
    return Address(account="memory", chat=chat, kind="group")


async def open_store(url: str, clock: VirtualClock) -> WatchedStore:
    lay(url)
    store = await WatchedStore.open(url, clock=clock)
    assert isinstance(store, WatchedStore)
    clock.busy = lambda: store.at_work > 0 and not store.tripwire.tripped.is_set()
    return store


@asynccontextmanager
async def world(
    tmp_path: Path, mode: MemoryMode = FULL, rate: Rate = RATE, platform: type[WatchedChannel] = WatchedChannel
) -> AsyncIterator[World]:
    clock = VirtualClock()
    url = f"sqlite:///{tmp_path}/antler.db"
    store = await open_store(url, clock)
    ports = ChannelPorts(publish=_nothing, clock=clock, route=lambda _: Route(), log=logging.getLogger("channels"))
    channel = platform("memory", ports, mode, rate)
    made = World(url, clock, store, channel, None)  # type: ignore[arg-type]  # created in the next line from this
    made.delivery = made.new_delivery()
    made.delivery.register(channel)
    await made.delivery.start()
    try:
        yield made
    finally:
        await clock.until(made.delivery.close(0))
        await made.store.close()


async def _nothing(events: Sequence[Any]) -> None:
    return None
