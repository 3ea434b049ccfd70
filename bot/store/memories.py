"""Memories in the database: the turns still to be learnt from, each owner's settings (on or off, what was forgotten),
and harness.memory's `MemoryStore`, for gateways on PostgreSQL or if configured."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from sqlalchemy import bindparam, delete, func, literal, select, update

from bot.store.errors import StoreError
from bot.store.identity import folder_name
from bot.store.memory_tables import agents_memories, memories, memory_lists, memory_owners, memory_queue
from bot.store.rows import columns_of, value_of
from bot.store.sql import chunks, insert, insert_once, storable
from bot.store.tables import runs
from harness.memory.model import Memory, from_json
from harness.memory.store import MemoryUnavailable, StoredMemory

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence
    from datetime import datetime, timedelta
    from typing import TypeVar

    from sqlalchemy import ColumnElement, Connection, Table

    from bot.store import Store
    from bot.store.retrying import RetryingStore
    from channels.base import Clock

    T = TypeVar("T")

log = logging.getLogger(__name__)

MOST_TOGETHER = 20
"""Most waiting turns of one person in one thread; the oldest are dropped."""
MOST_OF_OWNER = 200
"""Most waiting turns of one owner; the oldest are dropped."""
MOST_QUIET_TIMES = 10
"""Most quiet times that a turn waits for further turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedTurn:
    """One turn. Columns are described in memory_tables.py; id: 0 until it is queued."""

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
    agent: str | None = None


# Built once: building a statement costs more than running it, and these run at the end of every turn.
TURNS_TOGETHER = (
    select(memory_queue.c.id, memory_queue.c.queued_at, memory_queue.c.due_at, memory_queue.c.tries)
    .where(memory_queue.c.thread_id == bindparam("thread"), memory_queue.c.speaker == bindparam("person"))
    .order_by(memory_queue.c.id)
)
SET_DUE = (
    update(memory_queue)
    .where(memory_queue.c.thread_id == bindparam("thread"), memory_queue.c.speaker == bindparam("person"))
    .values(due_at=bindparam("due"))
)
TOO_MANY_TURNS = (
    select(memory_queue.c.id)
    .where(memory_queue.c.owner == bindparam("whose"))
    .order_by(memory_queue.c.id.desc())
    .offset(MOST_OF_OWNER)
    .limit(MOST_OF_OWNER)
)


def queue_turn(tx: Connection, turn: QueuedTurn, quiet: timedelta) -> None:
    """Queue a turn, once. Earlier queued turns of the person in that thread wait for it: all are due together, `quiet`
    after the last one but never much later than the first."""
    values = {name: value for name, value in columns_of(turn).items() if name != "id"}
    tx.execute(insert_once(tx.dialect.name, memory_queue.c.run_id), values)
    together = {"thread": turn.thread_id, "person": turn.speaker}
    waiting = tx.execute(TURNS_TOGETHER, together).all()
    if len(waiting) > MOST_TOGETHER:
        drop_turns(tx, [row.id for row in waiting[:-MOST_TOGETHER]])
        waiting = waiting[-MOST_TOGETHER:]
    if len(waiting) > 1:
        due = min(turn.queued_at + quiet, waiting[0].queued_at + MOST_QUIET_TIMES * quiet)
        failed = [row.due_at for row in waiting if row.tries]  # retried at their own time
        tx.execute(SET_DUE, together | {"due": max([due, *failed])})
    if too_many := list(tx.scalars(TOO_MANY_TURNS, {"whose": turn.owner})):
        drop_turns(tx, too_many)


def waiting_owners(tx: Connection, limit: int) -> list[tuple[str, datetime]]:
    """Owners with waiting turns, each with the time when the first of them is due; earliest first."""
    first = func.min(memory_queue.c.due_at).label("first")
    query = select(memory_queue.c.owner, first).group_by(memory_queue.c.owner).order_by(first, memory_queue.c.owner)
    return [(row.owner, row.first) for row in tx.execute(query.limit(limit))]


def first_turns(tx: Connection, owner: str) -> list[QueuedTurn]:
    """The turns of an owner that are due first: those of one person in one thread, in order."""
    own = select(memory_queue).where(memory_queue.c.owner == owner)
    head = tx.execute(own.order_by(memory_queue.c.due_at, memory_queue.c.id).limit(1)).first()
    if head is None:
        return []
    together = own.where(memory_queue.c.thread_id == head.thread_id, memory_queue.c.speaker == head.speaker)
    rows = tx.execute(together.order_by(memory_queue.c.id))
    return [value_of(QueuedTurn, row) for row in rows]


def groups_of(tx: Connection, person: str) -> set[str]:
    """The owner ids of groups in which the person spoke, as far as they are still known."""
    spoke = (runs.c.speaker == person) & (runs.c.chat_kind != "dm")
    asked = tx.scalars(select(runs.c.conversation).where(spoke).distinct())
    queued = tx.scalars(select(memory_queue.c.owner).where(memory_queue.c.speaker == person).distinct())
    return (set(asked) | set(queued)) - {person}


def count_turns(tx: Connection, owner: str, ids: Sequence[int]) -> int:
    """How many of these turns still wait for that owner."""
    these = (memory_queue.c.owner == owner) & memory_queue.c.id.in_(ids)
    return tx.scalar(select(func.count()).select_from(memory_queue).where(these)) or 0


def drop_turns(tx: Connection, ids: Sequence[int]) -> None:
    """Remove turns that were learnt from or abandoned."""
    tx.execute(delete(memory_queue).where(memory_queue.c.id.in_(ids)))


def postpone_turns(tx: Connection, ids: Sequence[int], due_at: datetime, tries: int) -> None:
    """Postpone turns until then."""
    tx.execute(update(memory_queue).where(memory_queue.c.id.in_(ids)).values(due_at=due_at, tries=tries))


def drop_turns_for(tx: Connection, owner: str) -> int:
    """Remove all turns that wait for an owner's memory; return how many."""
    return _drop(tx, memory_queue.c.owner == owner)


def drop_turns_of(tx: Connection, owner: str, speaker: str) -> int:
    """Remove one person's turns that wait for an owner's memory; return how many."""
    return _drop(tx, (memory_queue.c.owner == owner) & (memory_queue.c.speaker == speaker))


def drop_turns_of_runs(tx: Connection, run_ids: Sequence[str]) -> int:
    """Remove the waiting turns of these runs; return how many."""
    return _drop(tx, memory_queue.c.run_id.in_(run_ids))


def prune_turns(tx: Connection, before: datetime, limit: int = 5000) -> int:
    """Remove turns queued before that time, at most `limit`; return how many."""
    old = select(memory_queue.c.id).where(memory_queue.c.queued_at < before).order_by(memory_queue.c.id).limit(limit)
    ids = list(tx.scalars(old))
    return sum(_drop(tx, memory_queue.c.id.in_(part)) for part in chunks(ids))


def _drop(tx: Connection, which: ColumnElement[bool]) -> int:
    dropped: Any = tx.execute(delete(memory_queue).where(which))
    return int(dropped.rowcount)


# Each owner's settings, and the facts that /memory listed.


@dataclass(frozen=True, slots=True)
class OwnerState:
    """An owner's settings. Columns are described in memory_tables.py."""

    off: bool = False
    changed: int = 0
    forgotten_at: datetime | None = None

    def had_forgotten(self, said_at: datetime) -> bool:
        """Whether messages of that time must no longer be learnt from."""
        return self.forgotten_at is not None and said_at <= self.forgotten_at


TWO_OWNERS = select(memory_owners).where(memory_owners.c.owner.in_((bindparam("one"), bindparam("other"))))
"""Built once: it is executed at the end of every turn."""


def owner_state(tx: Connection, owner: str) -> OwnerState:
    """An owner's settings; the defaults if none are recorded."""
    return owner_states(tx, owner, owner)[0]


def owner_states(tx: Connection, owner: str, other: str) -> tuple[OwnerState, OwnerState]:
    """The settings of two owners, in one query."""
    rows = tx.execute(TWO_OWNERS, {"one": owner, "other": other})
    states = {row.owner: OwnerState(row.off, row.changed, row.forgotten_at) for row in rows}
    return states.get(storable(owner), OwnerState()), states.get(storable(other), OwnerState())


def change_owner(
    tx: Connection, owner: str, *, off: bool | None = None, forgotten_at: datetime | None = None
) -> OwnerState:
    """Record a person's change. off: the switch, None: unchanged. forgotten_at: now, if something was forgotten."""
    known = owner_state(tx, owner)
    state = OwnerState(
        off=known.off if off is None else off,
        changed=known.changed + 1,
        forgotten_at=forgotten_at or known.forgotten_at,
    )
    values = {"off": state.off, "changed": state.changed, "forgotten_at": state.forgotten_at}
    _put(tx, memory_owners, {"owner": owner}, values)
    return state


def record_list(
    tx: Connection, conversation: str, owner: str, facts: Sequence[str], now: datetime, agent: str = ""
) -> None:
    """Record the order of facts as shown, replacing the last list there. agent: whose own memory they are in."""
    values = {"owner": owner, "agent": agent or None, "facts": json.dumps(list(facts)), "shown_at": now}
    _put(tx, memory_lists, {"conversation": conversation}, values)


def listed_facts(tx: Connection, conversation: str, owner: str, agent: str = "") -> list[str] | None:
    """The ids of the owner's facts in the order last shown there; None if they were not shown, or if the last list was
    from another agent's own memory."""
    own = (memory_lists.c.conversation == conversation) & (memory_lists.c.owner == owner)
    own &= func.coalesce(memory_lists.c.agent, "") == agent
    facts = tx.scalar(select(memory_lists.c.facts).where(own))
    return None if facts is None else [str(fact) for fact in json.loads(facts)]


def prune_lists(tx: Connection, before: datetime, limit: int = 5000) -> int:
    """Delete lists shown before that time, at most `limit`; return how many."""
    old = select(memory_lists.c.conversation).where(memory_lists.c.shown_at < before).limit(limit)
    keys = list(tx.scalars(old))
    parts = (delete(memory_lists).where(memory_lists.c.conversation.in_(part)) for part in chunks(keys))
    return sum(tx.execute(part).rowcount for part in parts)


def _put(tx: Connection, table: Any, key: dict[str, Any], values: dict[str, Any]) -> None:
    put = insert(tx, table).values(key | values)
    tx.execute(put.on_conflict_do_update(index_elements=list(key), set_=values))


# The memories themselves.


@dataclass(frozen=True, slots=True)
class MemoryBody:
    """A memory as stored: its JSON, and the JSON that it replaced."""

    body: str
    last_good: str | None


class StoreMemories:
    """The `MemoryStore` of harness.memory. A broken memory stays in its row, set aside, until it is deleted."""

    def __init__(self, store: RetryingStore | Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def load(self, owner: str, agent: str = "") -> Memory:
        """Return the owner's memory, empty if there is none; the last good copy if it cannot be read."""
        found = await _or_unavailable(self._store.read(lambda tx: _load(tx, owner, agent)))
        if found is None:
            return Memory()
        memory = _parsed(found.body)
        return memory if memory is not None else await self._recover(owner, agent, found)

    async def save(self, owner: str, memory: Memory, agent: str = "") -> None:
        """Replace the owner's memory."""
        body, now = memory.to_json(), self._clock.now()
        await _or_unavailable(self._store.write(lambda tx: _save(tx, owner, agent, body, now)))

    async def replace(self, owner: str, known: Memory, memory: Memory, agent: str = "") -> bool:
        """Replace `known` by `memory`, or delete it if `memory` is empty, as one unit; False if another memory is
        stored, which another process may have written."""
        was, body, now = known.to_json(), "" if memory.is_empty else memory.to_json(), self._clock.now()

        def unit(tx: Connection) -> bool:
            found = _load(tx, owner, agent, lock=True)
            if found is None:
                return not body or (known.is_empty and _add(tx, owner, agent, body, now))
            if found.body != was and _parsed(found.body) != known:
                return found.body == body  # already written, if the database's answer was lost
            _overwrite(tx, owner, agent, body, found.body, now)
            return True

        return await _or_unavailable(self._store.write(unit))

    async def delete(self, owner: str, agent: str = "") -> bool:
        """Delete the owner's memory; return whether there was one."""
        table, row = _row_of(owner, agent)
        gone = delete(table).where(row)
        return await _or_unavailable(self._store.write(lambda tx: tx.execute(gone).rowcount > 0))

    async def owners(self, owner: str | None = None) -> list[StoredMemory]:
        """All stored memories, or those of one owner, with their sizes."""
        return await _or_unavailable(self._store.read(lambda tx: _stored(tx, owner)))

    async def _recover(self, owner: str, agent: str, found: MemoryBody) -> Memory:
        """Replace a broken memory by the last good copy, or by an empty one."""
        memory = _parsed(found.last_good) if found.last_good is not None else None
        good = memory or Memory()
        log.error(
            "the memory %s cannot be read: it is set aside and replaced by %s",
            folder_name(owner),
            "its last good copy" if memory is not None else "an empty one",
        )
        body = good.to_json()
        await _or_unavailable(self._store.write(lambda tx: _set_aside(tx, owner, agent, found.body, body)))
        return good


def _row_of(owner: str, agent: str) -> tuple[Table, ColumnElement[bool]]:
    """The table and row of a memory: those that agents keep for themselves have a separate table."""
    if agent:
        return agents_memories, (agents_memories.c.owner == owner) & (agents_memories.c.agent == agent)
    return memories, memories.c.owner == owner


def _load(tx: Connection, owner: str, agent: str, *, lock: bool = False) -> MemoryBody | None:
    """Read an owner's memory. lock: no other process can change it before this transaction ends."""
    table, where = _row_of(owner, agent)
    query = select(table.c.body, table.c.last_good).where(where)
    row = tx.execute(query.with_for_update() if lock else query).first()
    return None if row is None else value_of(MemoryBody, row)


def _save(tx: Connection, owner: str, agent: str, body: str, now: datetime) -> None:
    """Store a memory; the one that it replaces becomes the last good copy."""
    known = _load(tx, owner, agent, lock=True)
    if known is None:
        _add(tx, owner, agent, body, now)
    else:
        _overwrite(tx, owner, agent, body, known.body, now)


def _add(tx: Connection, owner: str, agent: str, body: str, now: datetime) -> bool:
    """Store an owner's first memory; False if another process was faster."""
    table, _ = _row_of(owner, agent)
    key = {"owner": owner} | ({"agent": agent} if agent else {})
    values = {"body": body, "last_good": None, "broken": None, "updated_at": now}
    put = insert(tx, table).on_conflict_do_nothing().returning(table.c.owner)
    return tx.execute(put, key | values).first() is not None


def _overwrite(tx: Connection, owner: str, agent: str, body: str, last_good: str, now: datetime) -> None:
    """Replace `last_good` by `body`; without a body, delete it."""
    table, row = _row_of(owner, agent)
    values = {"body": body, "last_good": last_good, "updated_at": now}
    tx.execute(update(table).where(row).values(values) if body else delete(table).where(row))


def _set_aside(tx: Connection, owner: str, agent: str, broken: str, body: str) -> None:
    """Replace an unreadable memory by `body`, unless another process has written one in the meantime."""
    table, row = _row_of(owner, agent)
    same = row & (table.c.body == broken)
    tx.execute(update(table).where(same).values(body=body, broken=broken, last_good=None))


def _stored(tx: Connection, owner: str | None) -> list[StoredMemory]:
    """List the stored memories of all owners or of one."""
    rows: list[Any] = []
    for table, agent in ((memories, literal("").label("agent")), (agents_memories, agents_memories.c.agent)):
        query = select(table.c.owner, agent, table.c.body, table.c.updated_at)
        rows += tx.execute(query if owner is None else query.where(table.c.owner == owner))
    found = [
        StoredMemory(owner=row.owner, agent=row.agent, size=len(row.body.encode()), updated_at=row.updated_at)
        for row in rows
    ]
    return sorted(found, key=lambda each: (each.owner, each.agent))


def _parsed(body: str) -> Memory | None:
    try:
        return from_json(body)
    except ValidationError:
        return None


async def _or_unavailable(work: Awaitable[T]) -> T:
    try:
        return await work
    except StoreError as error:
        raise MemoryUnavailable(str(error)) from error
