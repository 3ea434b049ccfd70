"""Turns that are still to be learnt from, kept from the end of the run until the memory is written."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, func, select, update

from bot.store.sql import chunks, insert_once
from bot.store.tables import memory_queue, runs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from sqlalchemy import ColumnElement, Connection

MOST_TOGETHER = 20
"""Turns of one person in one thread that wait; the oldest go."""
MOST_OF_OWNER = 200
"""Turns of one owner that wait; the oldest go."""
WINDOWS = 10
"""Quiet times that a turn waits for further ones at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedTurn:
    """One turn. Columns are described in tables.py; id: 0 until it is queued."""

    id: int = 0
    run_id: str
    owner: str
    thread_id: str
    speaker: str
    conversation: str
    exchange: str
    queued_at: datetime
    due_at: datetime
    tries: int = 0


_COLUMNS = tuple(field.name for field in fields(QueuedTurn))


# Built once: making a statement costs more than running it, and these run with the end of every turn.
TOGETHER = (
    select(memory_queue.c.id, memory_queue.c.queued_at, memory_queue.c.due_at, memory_queue.c.tries)
    .where(memory_queue.c.thread_id == bindparam("thread"), memory_queue.c.speaker == bindparam("person"))
    .order_by(memory_queue.c.id)
)
DUE = (
    update(memory_queue)
    .where(memory_queue.c.thread_id == bindparam("thread"), memory_queue.c.speaker == bindparam("person"))
    .values(due_at=bindparam("due"))
)
TOO_MANY = (
    select(memory_queue.c.id)
    .where(memory_queue.c.owner == bindparam("whose"))
    .order_by(memory_queue.c.id.desc())
    .offset(MOST_OF_OWNER)
    .limit(MOST_OF_OWNER)
)


def add(tx: Connection, turn: QueuedTurn, quiet: timedelta) -> None:
    """Queue a turn, once. What the person said before it in that thread, and is not learnt yet, waits for it: all are
    due together, `quiet` after the last one but never much later than the first."""
    values = {name: value for name, value in asdict(turn).items() if name != "id"}
    tx.execute(insert_once(tx.dialect.name, memory_queue.c.run_id), values)
    together = {"thread": turn.thread_id, "person": turn.speaker}
    waiting = tx.execute(TOGETHER, together).all()
    if len(waiting) > MOST_TOGETHER:
        done(tx, [row.id for row in waiting[:-MOST_TOGETHER]])
        waiting = waiting[-MOST_TOGETHER:]
    if len(waiting) > 1:
        due = min(turn.queued_at + quiet, waiting[0].queued_at + WINDOWS * quiet)
        failed = [row.due_at for row in waiting if row.tries]  # tried again in its own time
        tx.execute(DUE, together | {"due": max([due, *failed])})
    if too_many := list(tx.scalars(TOO_MANY, {"whose": turn.owner})):
        done(tx, too_many)


def owners(tx: Connection, limit: int) -> list[tuple[str, datetime]]:
    """Whose turns wait, each with the time when the first of them is due; the earliest first."""
    first = func.min(memory_queue.c.due_at).label("first")
    query = select(memory_queue.c.owner, first).group_by(memory_queue.c.owner).order_by(first, memory_queue.c.owner)
    return [(row.owner, row.first) for row in tx.execute(query.limit(limit))]


def first_of(tx: Connection, owner: str) -> list[QueuedTurn]:
    """The turns of an owner that are due first: one person's, of one thread, in their order."""
    own = select(memory_queue).where(memory_queue.c.owner == owner)
    head = tx.execute(own.order_by(memory_queue.c.due_at, memory_queue.c.id).limit(1)).first()
    if head is None:
        return []
    together = own.where(memory_queue.c.thread_id == head.thread_id, memory_queue.c.speaker == head.speaker)
    rows = tx.execute(together.order_by(memory_queue.c.id))
    return [QueuedTurn(**{name: getattr(row, name) for name in _COLUMNS}) for row in rows]


def groups_of(tx: Connection, person: str) -> set[str]:
    """The owners of groups to whom the person spoke, as far as it is still known."""
    spoke = (runs.c.speaker == person) & (runs.c.chat_kind != "dm")
    asked = tx.scalars(select(runs.c.conversation).where(spoke).distinct())
    queued = tx.scalars(select(memory_queue.c.owner).where(memory_queue.c.speaker == person).distinct())
    return (set(asked) | set(queued)) - {person}


def waiting(tx: Connection, owner: str, ids: Sequence[int]) -> int:
    """How many of these turns still wait, for that owner."""
    these = (memory_queue.c.owner == owner) & memory_queue.c.id.in_(ids)
    return tx.scalar(select(func.count()).select_from(memory_queue).where(these)) or 0


def done(tx: Connection, ids: Sequence[int]) -> None:
    """These turns are learnt from, or given up."""
    tx.execute(delete(memory_queue).where(memory_queue.c.id.in_(ids)))


def postpone(tx: Connection, ids: Sequence[int], due_at: datetime, tries: int) -> None:
    """Try these again then."""
    tx.execute(update(memory_queue).where(memory_queue.c.id.in_(ids)).values(due_at=due_at, tries=tries))


def drop_owner(tx: Connection, owner: str) -> int:
    """Forget all that waits for an owner's memory; returns how many turns."""
    return _drop(tx, memory_queue.c.owner == owner)


def drop_speaker(tx: Connection, owner: str, speaker: str) -> int:
    """Forget what one person said of what waits for an owner's memory; returns how many turns."""
    return _drop(tx, (memory_queue.c.owner == owner) & (memory_queue.c.speaker == speaker))


def drop_runs(tx: Connection, run_ids: Sequence[str]) -> int:
    """Forget turns that were taken back; returns how many waited."""
    return _drop(tx, memory_queue.c.run_id.in_(run_ids))


def prune(tx: Connection, before: datetime, limit: int = 5000) -> int:
    """Forget turns that were queued before that time, at most `limit`; returns how many."""
    old = select(memory_queue.c.id).where(memory_queue.c.queued_at < before).order_by(memory_queue.c.id).limit(limit)
    ids = list(tx.scalars(old))
    return sum(_drop(tx, memory_queue.c.id.in_(part)) for part in chunks(ids))


def _drop(tx: Connection, which: ColumnElement[bool]) -> int:
    dropped: Any = tx.execute(delete(memory_queue).where(which))
    return int(dropped.rowcount)
