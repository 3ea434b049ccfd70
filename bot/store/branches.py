"""Branches: chats of the web page that begin with a copy of another chat up to one of its messages.

The inherited messages are stored with the branch as they were shown: it is a separate chat and outlives its source.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from sqlalchemy import delete, func, select, update

from bot.store.forgetting import deletes_since
from bot.store.rows import value_of
from bot.store.sql import chunks, from_json, insert, to_json
from bot.store.tables import branches, conversations, inbox, outbox, runs, threads
from channels.message import OutboundFile  # noqa: TC001  # read by pydantic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Row

MARK = ","
"""The separator in `lacks`."""
MOST_OF_CHAT, MOST_A_DAY, MOST_UNMADE = 50, 100, 3
"""Most branches of one chat; of one person within a day; and of one person not yet complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """One inherited message of a branch. entry: as returned by `Talk.history`. run_id: its turn, or ""; input_id: the
    person's message of that turn in the thread. file: the branch's own copy; original: the source of the copy."""

    entry: dict[str, Any]
    run_id: str = ""
    input_id: str = ""
    file: OutboundFile | None = None
    original: str = ""


INHERITED: TypeAdapter[tuple[Inherited, ...]] = TypeAdapter(tuple[Inherited, ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchRow:
    """A branch. It continues source_thread up to just before the message `before`, or to the end of the run `through`;
    with neither it begins empty. checkpoint: the thread's state before that message, None if unknown. lacks: what could
    not be copied, of "results" (of tools) and "files". made_at: None until the branch is complete."""

    thread_id: str
    key: str
    source_key: str
    source_thread: str
    before: str
    through: str
    checkpoint: str | None
    messages: tuple[Inherited, ...]
    created_at: datetime
    lacks: tuple[str, ...] = ()
    made_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """The turn of a message. input_id: the person's message in the thread. checkpoint: the thread's newest one before
    the turn."""

    run_id: str
    thread_id: str
    input_id: str
    checkpoint: str | None


@dataclass(frozen=True, slots=True)
class Related:
    """A chat that is the source or a branch of another one."""

    key: str
    title: str


@dataclass(frozen=True, slots=True)
class Relations:
    """The relations of a chat. source: None if the chat is no branch, or its source was deleted. children: its
    branches, oldest first. lacks: as in `BranchRow`."""

    source: Related | None = None
    children: tuple[Related, ...] = ()
    lacks: tuple[str, ...] = ()


class BeingDeleted(Exception):
    """The source of a new branch is being deleted, or was deleted while it was read."""


class Bound(StrEnum):
    """The limit that is exceeded, see MOST_OF_CHAT."""

    CHAT = "chat"
    DAY = "day"
    UNMADE = "unmade"


class TooManyBranches(Exception):
    """Another branch would exceed a limit."""

    def __init__(self, bound: Bound) -> None:
        super().__init__(bound)
        self.bound = bound


def begin(tx: Connection, row: BranchRow, title: str) -> None:
    """Record a branch that is to be created: its thread, and its conversation with the source's settings. The row's
    created_at must be from before anything of the source was read. Raises BeingDeleted, TooManyBranches."""
    source = tx.execute(select(conversations).where(conversations.c.key == row.source_key)).first()
    # A deletion lists what it covers when it begins: anything recorded later would survive it.
    if source is None or deletes_since(tx, source.owner, _threads_of(tx, row), row.created_at):
        raise BeingDeleted
    if (bound := _bound(tx, row, source.owner)) is not None:
        raise TooManyBranches(bound)
    thread = {"thread_id": row.thread_id, "conversation": row.key, "owner": source.owner, "title": title}
    tx.execute(insert(tx, threads), thread | {"created_at": row.created_at})
    own = {"key": row.key, "thread_id": row.thread_id, "created_at": row.created_at}
    tx.execute(insert(tx, conversations), dict(source._mapping) | own)
    values = {
        "thread_id": row.thread_id,
        "key": row.key,
        "source_key": row.source_key,
        "source_thread": row.source_thread,
        "before": row.before,
        "through": row.through,
        "checkpoint": row.checkpoint,
        "messages": to_json(INHERITED, row.messages),
        "created_at": row.created_at,
        "lacks": "",
    }
    tx.execute(insert(tx, branches), values)


def _bound(tx: Connection, row: BranchRow, owner: str) -> Bound | None:
    """The limit that is already reached, if any."""
    of_chat = select(func.count()).where(branches.c.source_key == row.source_key)
    if (tx.scalar(of_chat) or 0) >= MOST_OF_CHAT:
        return Bound.CHAT
    joined = branches.join(threads, threads.c.thread_id == branches.c.thread_id)
    own = select(func.count()).select_from(joined).where(threads.c.owner == owner)
    if (tx.scalar(own.where(branches.c.made_at.is_(None))) or 0) >= MOST_UNMADE:
        return Bound.UNMADE
    if (tx.scalar(own.where(branches.c.created_at > row.created_at - timedelta(days=1))) or 0) >= MOST_A_DAY:
        return Bound.DAY
    return None


def _threads_of(tx: Connection, row: BranchRow) -> set[str]:
    """The threads that a branch's inherited messages come from."""
    found = {row.source_thread}
    for part in chunks(each.run_id for each in row.messages):
        found.update(tx.scalars(select(runs.c.thread_id).where(runs.c.run_id.in_(part))))
    return found


def made(tx: Connection, thread_id: str, lacks: Sequence[str], now: datetime) -> None:
    """Mark a branch as complete, and as used now."""
    tx.execute(update(branches).where(branches.c.thread_id == thread_id).values(lacks=MARK.join(lacks), made_at=now))
    tx.execute(update(threads).where(threads.c.thread_id == thread_id).values(touched_at=now))


def drop(tx: Connection, row: BranchRow) -> None:
    """Delete a branch that could not be completed. It was not a visible chat yet, so it has no messages."""
    tx.execute(delete(branches).where(branches.c.thread_id == row.thread_id))
    tx.execute(delete(conversations).where(conversations.c.thread_id == row.thread_id))
    tx.execute(delete(threads).where(threads.c.thread_id == row.thread_id))


def unmade(tx: Connection) -> list[BranchRow]:
    """Branches that are not complete, oldest first."""
    return [
        _row(row) for row in tx.execute(select(branches).where(branches.c.made_at.is_(None)).order_by("created_at"))
    ]


def load(tx: Connection, key: str) -> BranchRow | None:
    """The branch of a conversation; None if it is no branch, or its inherited messages were deleted."""
    row = tx.execute(select(branches).where(branches.c.key == key)).first()
    return None if row is None else _row(row)


def relations(tx: Connection, key: str) -> Relations:
    """A chat's source, and its complete branches."""
    there = threads.c.conversation != ""
    chat = select(conversations.c.key, threads.c.title).join(threads, threads.c.thread_id == conversations.c.thread_id)
    own = chat.join(branches, branches.c.key == conversations.c.key).where(branches.c.source_key == key, there)
    own = own.where(branches.c.made_at.is_not(None))
    children = tuple(Related(*row) for row in tx.execute(own.order_by(branches.c.created_at)))
    known = tx.execute(
        select(branches.c.source_key, branches.c.lacks, threads.c.conversation)
        .outerjoin(threads, threads.c.thread_id == branches.c.source_thread)
        .where(branches.c.key == key)
    ).first()
    if known is None:
        return Relations(children=children)
    source = tx.execute(chat.where(conversations.c.key == known.source_key)).first() if known.conversation else None
    return Relations(None if source is None else Related(*source), children, _words(known.lacks))


def places(tx: Connection, account: str, chat: str, message_ids: Iterable[str]) -> dict[str, Place]:
    """The turns of these messages of a chat, from either side, as far as they are known."""
    found: dict[str, Place] = {}
    about = (runs.c.run_id, runs.c.thread_id, runs.c.input, runs.c.base_checkpoint_id)
    for part in chunks(message_ids):
        asked = (
            select(inbox.c.platform_message_id, *about)
            .join(runs, runs.c.run_id == inbox.c.run_id)
            .where(inbox.c.account == account, inbox.c.chat == chat, inbox.c.platform_message_id.in_(part))
        )
        answered = (
            select(outbox.c.message_id, *about)
            .join(runs, runs.c.reply_key == outbox.c.reply_key)
            .where(outbox.c.account == account, outbox.c.chat == chat, outbox.c.message_id.in_(part))
        )
        for query in (asked, answered):
            for message_id, run_id, thread_id, run_input, checkpoint in tx.execute(query):
                found[message_id] = Place(run_id, thread_id, run_input.message_id, checkpoint)
    return found


def _row(row: Row[Any]) -> BranchRow:
    messages = from_json(INHERITED, row.messages) or ()
    return value_of(BranchRow, row, messages=messages, lacks=_words(row.lacks))


def _words(lacks: str) -> tuple[str, ...]:
    return tuple(filter(None, lacks.split(MARK)))
