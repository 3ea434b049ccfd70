"""MessageBus: the only way in. Commits inbound events to the inbox, then passes them to the ChannelManager in order."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pydantic import ValidationError

from bot.store import inbox
from bot.store.errors import StoreError
from bot.store.rows import InboxRow, InboxState
from channels.message import INBOUND_EVENT, Unparsed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from sqlalchemy import Connection

    from bot.access.admission import Decision
    from bot.store import Store
    from channels.message import InboundEvent

log = logging.getLogger(__name__)

TELLING = re.compile(r"(?:.*_)?(?:id|ids|ts|type|key|date|kind|version|status|cmd|note)|msgid|msgtype|chattype|subtype")
"""Names of members in a platform's JSON that hold no text written by people."""
NAME = re.compile(r"[A-Za-z0-9_.:-]{0,40}")
LONGEST_ID = 100
WAITING = 2_000
"""Committed events that may wait for the manager; beyond that, publishing waits, and so does the platform."""


@dataclass(frozen=True, slots=True)
class Inbound:
    """A committed event. id: that of its inbox row, the event's identity from here on. decision: the one made before
    it was committed, None if that was in an earlier process."""

    id: int
    event: InboundEvent
    decision: Decision | None = None


async def _nothing_to_learn(events: Sequence[InboundEvent]) -> None:
    return None


class MessageBus:
    """The way in. decide: called with each event; None if it must not be stored (for others, too many strangers).

    learn: called first, reads from the store what `decide` needs to know; may raise StoreError.
    """

    def __init__(
        self,
        store: Store,
        decide: Callable[[InboundEvent], Decision | None],
        learn: Callable[[Sequence[InboundEvent]], Awaitable[None]] = _nothing_to_learn,
    ) -> None:
        self._store = store
        self._decide = decide
        self._learn = learn
        self._waiting: asyncio.Queue[Inbound] = asyncio.Queue(WAITING)
        self._accepting: set[asyncio.Task[None]] = set()
        self.unreadable = 0
        """Number of events that could not be read, since the start."""
        self.counts: Counter[tuple[str, str]] = Counter()
        """Events since the start, by account and outcome: accepted, duplicate, unreadable, or passed_by (addressed to
        others, or too many from strangers)."""

    async def publish(self, events: Sequence[InboundEvent]) -> None:
        """Commit events and pass them on; returns when all are committed. Duplicates are dropped. Raises StoreError.

        Cancelling the caller (after its time limit for the ack) stops nothing: committed events are passed on all the
        same, since they would be duplicates when the platform sends them again.
        """
        await self._learn(events)
        kept = []
        for event in events:
            if (decision := self._decide(event)) is not None:
                kept.append((_kept(event), decision))
            else:
                self.counts[event.account, "passed_by"] += 1
        accepting = asyncio.create_task(self._accept(kept), name="bus:accept")
        self._accepting.add(accepting)
        accepting.add_done_callback(self._accepting.discard)
        try:
            await asyncio.shield(accepting)
        except asyncio.CancelledError:
            accepting.add_done_callback(_unheard)
            raise

    async def originate(self, event: InboundEvent, unit: Callable[[Connection], bool]) -> None:
        """Commit an event that the gateway itself creates, together with `unit`, which returns whether to create it.

        Call it again after StoreError: an event that was committed nevertheless is passed on then.
        """

        def whole(tx: Connection) -> InboxRow | None:
            return inbox.ADD_EVENTS.run(tx, [event])[0] if unit(tx) else inbox.still_new(tx, event)

        row = await self._store.write(whole)
        if row is not None:
            await self._waiting.put(Inbound(row.id, event))

    async def originate_once(self, event: InboundEvent) -> bool:
        """`originate`, unless an event with one of its keys already exists: returns False then."""
        known = False

        def is_new(tx: Connection) -> bool:
            nonlocal known
            known = inbox.is_known(tx, event)
            return not known

        await self.originate(event, is_new)
        return not known

    async def _accept(self, kept: Sequence[tuple[InboundEvent, Decision]]) -> None:
        rows = await self._store.add(inbox.ADD_EVENTS, [event for event, _ in kept])
        for row, (event, decision) in zip(rows, kept, strict=True):
            if row is None:
                self.counts[event.account, "duplicate"] += 1
            elif row.state is InboxState.NEW:
                self.counts[event.account, "accepted"] += 1
                await self._waiting.put(Inbound(row.id, event, decision))
            else:
                self._dead(row)

    async def replay(self, *accounts: str) -> None:
        """Pass on events that an earlier process committed and that are still unsettled, of all accounts or of these.
        Call it before any of their channels receives.

        Events that this version cannot read are set aside as dead: they must not keep the gateway from starting.
        """
        for row in await self._store.read(inbox.unsettled):
            if accounts and row.account not in accounts:
                continue
            try:
                await self._waiting.put(parse(row))
            except ValidationError:
                self._dead(row)
                await self._store.write(partial(inbox.settle, ids=[row.id], state=InboxState.DEAD, reason="unreadable"))

    def _dead(self, row: InboxRow) -> None:
        self.unreadable += 1
        self.counts[row.account, "unreadable"] += 1
        log.error("event %d of %s cannot be read and is marked as dead", row.id, row.account)

    async def inbound(self) -> AsyncIterator[Inbound]:
        """Committed events, in the order of the inbox, without end."""
        while True:
            yield await self._waiting.get()
            self._waiting.task_done()

    async def handled(self) -> None:
        """Wait until all events committed so far have been passed on and handled."""
        await self._waiting.join()


def _unheard(accepting: asyncio.Task[None]) -> None:
    """Log a failure after the publisher was cancelled: nothing was acknowledged, so the events will be sent again."""
    if not accepting.cancelled() and (error := accepting.exception()) is not None:
        log.warning("events not stored, and their sender has gone: %s", error, exc_info=_surprising(error))


def _surprising(error: BaseException) -> BaseException | None:
    return None if isinstance(error, StoreError) else error


def parse(row: InboxRow) -> Inbound:
    """The event of an inbox row. Raises pydantic's ValidationError."""
    return Inbound(row.id, INBOUND_EVENT.validate_json(row.event))


def _kept(event: InboundEvent) -> InboundEvent:
    """The event as it is stored: one that cannot be read keeps its structure but not its text, which may not have been
    meant for the bot."""
    if not isinstance(event, Unparsed):
        return event
    try:
        return replace(event, raw=json.dumps(_without_words(json.loads(event.raw)), ensure_ascii=False))
    except (ValueError, RecursionError):
        return replace(event, raw=json.dumps({"characters": len(event.raw)}))


def _without_words(value: object, name: str = "") -> object:
    match value:
        case dict():
            return {_name(key): _without_words(part, key) for key, part in value.items()}
        case list():
            return [_without_words(part, name) for part in value]
        case str() if len(value) > LONGEST_ID or not TELLING.fullmatch(name):
            return f"({len(value)} characters)"
    return value


def _name(name: str) -> str:
    """The name of a member; anything that does not look like a name is treated as text."""
    return name if NAME.fullmatch(name) else f"({len(name)} characters)"
