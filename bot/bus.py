"""MessageBus: the one way in. Commits inbound events to the inbox, then hands them to the ChannelManager in order."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pydantic import ValidationError

from bot.store import inbox
from bot.store.rows import InboxRow, InboxState
from channels.message import INBOUND_EVENT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from sqlalchemy import Connection

    from bot.store import Store
    from channels.message import InboundEvent

log = logging.getLogger(__name__)

WAITING = 2_000
"""Committed events that may wait for the manager; beyond it publishing waits, and so does the platform."""


@dataclass(frozen=True, slots=True)
class Inbound:
    """A committed event. id: of its inbox row, the event's identity from here on."""

    id: int
    event: InboundEvent


async def _nothing_to_learn(events: Sequence[InboundEvent]) -> None:
    return None


class MessageBus:
    """passes_by: takes an event that is not to be stored (said to others, too many strangers); else False.

    learn: what has to be read from the store before that can be decided; it may raise StoreError.
    """

    def __init__(
        self,
        store: Store,
        passes_by: Callable[[InboundEvent], bool],
        learn: Callable[[Sequence[InboundEvent]], Awaitable[None]] = _nothing_to_learn,
    ) -> None:
        self._store = store
        self._passes_by = passes_by
        self._learn = learn
        self._waiting: asyncio.Queue[Inbound] = asyncio.Queue(WAITING)
        self._accepting: set[asyncio.Task[None]] = set()

    async def publish(self, events: Sequence[InboundEvent]) -> None:
        """Returns when all events are committed; a known one is dropped here. Raises StoreError.

        A cancelled caller (it waits only so long for the ack) stops nothing: what was committed is handed over all the
        same, for when the platform sends it again it is a duplicate.
        """
        await self._learn(events)
        kept = [event for event in events if not self._passes_by(event)]
        accepting = asyncio.create_task(self._accept(kept), name="bus:accept")
        self._accepting.add(accepting)
        accepting.add_done_callback(self._accepting.discard)
        await asyncio.shield(accepting)

    async def originate(self, event: InboundEvent, unit: Callable[[Connection], bool]) -> None:
        """Commit an event of the gateway's own together with `unit`, which says whether it is to be at all.

        To be called again after StoreError: what had been committed all the same is handed over then.
        """

        def whole(tx: Connection) -> InboxRow | None:
            return inbox.ADD_EVENTS.run(tx, [event])[0] if unit(tx) else inbox.still_new(tx, event)

        row = await self._store.write(whole)
        if row is not None:
            await self._waiting.put(Inbound(row.id, event))

    async def _accept(self, kept: Sequence[InboundEvent]) -> None:
        rows = await self._store.add(inbox.ADD_EVENTS, kept)
        for row, event in zip(rows, kept, strict=True):
            if row is not None and row.state is InboxState.NEW:
                await self._waiting.put(Inbound(row.id, event))

    async def replay(self) -> None:
        """Hand over what an earlier process committed and nobody decided yet. Before any channel listens.

        What this version cannot read is set aside as dead: it must not keep the gateway from starting.
        """
        for row in await self._store.read(inbox.unsettled):
            try:
                await self._waiting.put(parse(row))
            except ValidationError:
                log.error("event %d of %s cannot be read: it is set aside as dead", row.id, row.account)
                await self._store.write(partial(inbox.settle, ids=[row.id], state=InboxState.DEAD, reason="unreadable"))

    async def inbound(self) -> AsyncIterator[Inbound]:
        """Committed events, in the order of the inbox, for ever."""
        while True:
            yield await self._waiting.get()
            self._waiting.task_done()

    async def handled(self) -> None:
        """Wait until everything that was committed so far has been handed over and dealt with."""
        await self._waiting.join()


def parse(row: InboxRow) -> Inbound:
    """Raises pydantic's ValidationError."""
    return Inbound(row.id, INBOUND_EVENT.validate_json(row.event))
