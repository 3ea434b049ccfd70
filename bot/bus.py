"""MessageBus: the one way in. Commits inbound events to the inbox, then hands them to the ChannelManager in order."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.store import inbox
from bot.store.rows import InboxRow, InboxState
from channels.message import INBOUND_EVENT, Message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from bot.store import Store
    from channels.message import InboundEvent

WAITING = 2_000
"""Committed events that may wait for the manager; beyond it publishing waits, and so does the platform."""


@dataclass(frozen=True, slots=True)
class Inbound:
    """A committed event. id: of its inbox row, the event's identity from here on."""

    id: int
    event: InboundEvent


class MessageBus:
    """overhears: takes a group's unaddressed message, which is kept in memory only and never stored; else False."""

    def __init__(self, store: Store, overhears: Callable[[Message], bool]) -> None:
        self._store = store
        self._overhears = overhears
        self._waiting: asyncio.Queue[Inbound] = asyncio.Queue(WAITING)

    async def publish(self, events: Sequence[InboundEvent]) -> None:
        """Returns when all events are committed (P1); a known one is dropped here (P2). Raises StoreError."""
        kept = [event for event in events if not (isinstance(event, Message) and self._overhears(event))]
        rows = await self._store.add(inbox.ADD_EVENTS, kept)
        for row, event in zip(rows, kept, strict=True):
            if row is not None and row.state is InboxState.NEW:
                await self._waiting.put(Inbound(row.id, event))

    async def replay(self) -> None:
        """Hand over what an earlier process committed and nobody decided yet. Before any channel listens."""
        for row in await self._store.read(inbox.unsettled):
            await self._waiting.put(parse(row))

    async def inbound(self) -> AsyncIterator[Inbound]:
        """Committed events, in the order of the inbox, for ever."""
        while True:
            yield await self._waiting.get()
            self._waiting.task_done()

    async def handled(self) -> None:
        """Wait until everything that was committed so far has been handed over and dealt with."""
        await self._waiting.join()


def parse(row: InboxRow) -> Inbound:
    return Inbound(row.id, INBOUND_EVENT.validate_json(row.event))
