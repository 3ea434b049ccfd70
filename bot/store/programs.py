"""Data of programs besides their conversations: threads under the programs' own ids, with metadata; and the state of
messages that they sent."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, or_, select, update

from bot.store.rows import InboxState, value_of
from bot.store.runs import OPEN_STATES, TOUCH
from bot.store.sql import insert_new
from bot.store.tables import conversations, inbox, program_threads, runs, threads
from channels.message import INBOUND_EVENT, Message

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from sqlalchemy import Connection, Row

MOST_SEARCHED = 1_000
"""Most threads of one person that are searched, the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramThread:
    """A thread of a person's programs. Columns are described in tables.py."""

    key: str
    person: str
    name: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    temporary: bool = False
    created_at: datetime
    updated_at: datetime


def create(tx: Connection, row: ProgramThread) -> bool:
    """Record a thread; False if one with that key exists."""
    values = {**asdict(row), "metadata": json.dumps(dict(row.metadata))}
    new = insert_new(tx.dialect.name, program_threads).returning(program_threads.c.key)
    return tx.execute(new, values).first() is not None  # PostgreSQL counts no rows of an INSERT


def load(tx: Connection, key: str) -> ProgramThread | None:
    row = tx.execute(select(program_threads).where(program_threads.c.key == key)).first()
    return None if row is None else _thread(row)


def change(tx: Connection, key: str, metadata: Mapping[str, Any], now: datetime) -> ProgramThread | None:
    """Merge members into a thread's metadata; return the changed thread, None if it does not exist."""
    known = load(tx, key)
    if known is None:
        return None
    values = {"metadata": json.dumps({**known.metadata, **metadata}), "updated_at": now}
    tx.execute(update(program_threads).where(program_threads.c.key == key).values(values))
    return load(tx, key)


def touch(tx: Connection, key: str, now: datetime) -> None:
    """Record that a thread was used: asked something, or written to. Does nothing if it no longer exists."""
    if tx.execute(update(program_threads).where(program_threads.c.key == key).values(updated_at=now)).rowcount:
        current = select(conversations.c.thread_id).where(conversations.c.key == key)
        tx.execute(TOUCH, {"thread": tx.scalar(current), "now": now})


def of_person(tx: Connection, person: str) -> list[ProgramThread]:
    """The newest threads of a person, without temporary ones."""
    mine = (program_threads.c.person == person) & ~program_threads.c.temporary
    query = select(program_threads).where(mine).order_by(program_threads.c.updated_at.desc(), program_threads.c.key)
    return [_thread(row) for row in tx.execute(query.limit(MOST_SEARCHED))]


def over(tx: Connection, before: datetime, limit: int = 100) -> list[ProgramThread]:
    """Temporary threads without open runs in which nothing was asked or has ended since `before`."""
    busy = select(runs.c.conversation).where(or_(_open(), runs.c.ended_at >= before))
    old = program_threads.c.temporary & (program_threads.c.updated_at < before)
    query = select(program_threads).where(old, program_threads.c.key.not_in(busy)).limit(limit)
    return [_thread(row) for row in tx.execute(query)]


def drop(tx: Connection, key: str) -> bool:
    """Delete a thread's row; its contents are deleted elsewhere. False if it does not exist."""
    return tx.execute(delete(program_threads).where(program_threads.c.key == key)).rowcount > 0


def drop_of(tx: Connection, person: str, until: datetime) -> None:
    """Delete the rows of a person's threads created until then."""
    own = (program_threads.c.person == person) & (program_threads.c.created_at <= until)
    tx.execute(delete(program_threads).where(own))


def clear(tx: Connection, key: str) -> None:
    """Delete the conversation of a deleted thread, unless it has been created again or is in use."""
    if load(tx, key) is not None or tx.scalar(select(runs.c.seq).where(runs.c.conversation == key, _open()).limit(1)):
        return
    tx.execute(delete(conversations).where(conversations.c.key == key))
    tx.execute(delete(threads).where(threads.c.conversation == key, threads.c.touched_at.is_(None)))


def _open() -> Any:
    return runs.c.state.in_(OPEN_STATES)


def _thread(row: Row[*tuple[Any, ...]]) -> ProgramThread:
    return value_of(ProgramThread, row, metadata=json.loads(row.metadata))


@dataclass(frozen=True, slots=True)
class Sent:
    """The state of a message that was sent. reason: why it is settled."""

    state: InboxState
    reason: str | None
    run_id: str | None


def sent(tx: Connection, account: str, chat: str, message_id: str) -> Sent | None:
    """The state of a message that a program sent; None if it was never stored."""
    there = (inbox.c.account == account) & (inbox.c.chat == chat) & (inbox.c.platform_message_id == message_id)
    query = select(inbox.c.state, inbox.c.reason, inbox.c.run_id).where(there)
    row = tx.execute(query.order_by(inbox.c.id.desc()).limit(1)).first()
    return None if row is None else Sent(InboxState(row.state), row.reason, row.run_id)


def arrives(tx: Connection, account: str, chat: str) -> bool:
    """Whether an undecided message was sent there."""
    there = (inbox.c.account == account) & (inbox.c.chat == chat) & (inbox.c.state == InboxState.NEW)
    return tx.execute(select(inbox.c.id).where(there).limit(1)).first() is not None


def notes(tx: Connection, inbox_ids: list[int]) -> dict[int, str]:
    """The notes that programs attached to these messages, as far as they are still kept."""
    found = {}
    for row in tx.execute(select(inbox.c.id, inbox.c.event).where(inbox.c.id.in_(inbox_ids))):
        event = INBOUND_EVENT.validate_json(row.event)
        if isinstance(event, Message) and event.turn is not None:
            found[row.id] = event.turn.note
    return found


def runs_of(tx: Connection, key: str, limit: int, offset: int, states: tuple[str, ...] | None) -> list[str]:
    """The ids of the newest runs in a conversation, newest first. states: only runs in one of these states."""
    query = select(runs.c.run_id).where(runs.c.conversation == key)
    if states is not None:
        query = query.where(runs.c.state.in_(states))
    return list(tx.scalars(query.order_by(runs.c.seq.desc()).limit(limit).offset(offset)))
