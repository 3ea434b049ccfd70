"""Schedules: reminders and tasks for later, each in the chat where it was created."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import delete, func, select, update

from bot.store.rows import columns_of, value_of
from bot.store.sql import chunks, insert_new
from bot.store.tables import schedules

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, Row

    from channels.message import Address


class ScheduleState(StrEnum):
    """ACTIVE: it will fire. DONE: it was due for the last time. CANCELLED: by a person. REVOKED: its person may no
    longer use the bot there. GONE: the bot was removed from the chat, or blocked."""

    ACTIVE = "active"
    DONE = "done"
    CANCELLED = "cancelled"
    REVOKED = "revoked"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """One schedule. Columns are described in tables.py."""

    id: str
    address: Address
    reply_to: str | None = None
    conversation: str
    person: str
    name: str
    language: str
    text: str
    kind: Literal["once", "cron"]
    spec: str
    timezone: str
    next_at: datetime
    created_at: datetime
    last_fired_at: datetime | None = None
    state: ScheduleState = ScheduleState.ACTIVE


_ACTIVE = schedules.c.state == ScheduleState.ACTIVE


def create(tx: Connection, row: ScheduleRow) -> ScheduleRow:
    """Record a schedule, once: if its id already exists, the existing schedule is returned unchanged."""
    tx.execute(insert_new(tx.dialect.name, schedules), columns_of(row) | {"ended_at": None})
    known = load(tx, row.id)
    assert known is not None
    return known


def load(tx: Connection, schedule_id: str) -> ScheduleRow | None:
    """One schedule, in any state."""
    row = tx.execute(select(schedules).where(schedules.c.id == schedule_id)).first()
    return None if row is None else _row(row)


def counts(tx: Connection, person: str, address: Address) -> tuple[int, int]:
    """Count the active schedules: of the person everywhere, and of everybody in that chat."""
    count = select(func.count()).select_from(schedules).where(_ACTIVE)
    own, there = tx.scalar(count.where(schedules.c.person == person)), tx.scalar(count.where(_in_chat(address)))
    return own or 0, there or 0


def in_chat(tx: Connection, address: Address, person: str | None = None) -> list[ScheduleRow]:
    """The active schedules of a chat including all its topics, next due first. person: only theirs."""
    query = select(schedules).where(_ACTIVE, _in_chat(address)).order_by(schedules.c.next_at, schedules.c.id)
    if person is not None:
        query = query.where(schedules.c.person == person)
    return [_row(row) for row in tx.execute(query)]


def active(tx: Connection, person: str | None, limit: int) -> list[ScheduleRow]:
    """The active schedules, next due first. person: only theirs, None: everybody's."""
    query = select(schedules).where(_ACTIVE).order_by(schedules.c.next_at, schedules.c.id).limit(limit)
    if person is not None:
        query = query.where(schedules.c.person == person)
    return [_row(row) for row in tx.execute(query)]


def first_due(tx: Connection, accounts: Collection[str]) -> ScheduleRow | None:
    """The active schedule of these accounts that is, or will be, due first."""
    query = select(schedules).where(_ACTIVE, schedules.c.account.in_(accounts))
    row = tx.execute(query.order_by(schedules.c.next_at, schedules.c.id).limit(1)).first()
    return None if row is None else _row(row)


def fired(tx: Connection, schedule_id: str, due: datetime, upcoming: datetime | None, now: datetime) -> bool:
    """Record the firing that was due then. upcoming: the next one; None: that was the last. False if it must not fire:
    it already fired, or was ended."""
    changes: dict[str, Any] = {"last_fired_at": now}
    changes |= {"state": ScheduleState.DONE, "ended_at": now} if upcoming is None else {"next_at": upcoming}
    mine = (schedules.c.id == schedule_id) & (schedules.c.next_at == due) & _ACTIVE
    return tx.execute(update(schedules).where(mine).values(changes)).rowcount > 0


def end(tx: Connection, schedule_id: str, state: ScheduleState, now: datetime) -> bool:
    """End a schedule; False if it had already ended."""
    mine = (schedules.c.id == schedule_id) & _ACTIVE
    return tx.execute(update(schedules).where(mine).values(state=state, ended_at=now)).rowcount > 0


def end_chat(tx: Connection, address: Address, now: datetime) -> int:
    """End all schedules of a chat in which the bot can no longer write; return how many."""
    gone = update(schedules).where(_ACTIVE, _in_chat(address)).values(state=ScheduleState.GONE, ended_at=now)
    return tx.execute(gone).rowcount


def prune(tx: Connection, before: datetime, limit: int = 5000) -> int:
    """Delete schedules that ended before that time, at most `limit`; return how many."""
    old = select(schedules.c.id).where(schedules.c.ended_at < before).order_by(schedules.c.ended_at).limit(limit)
    ids = list(tx.scalars(old))
    return sum(tx.execute(delete(schedules).where(schedules.c.id.in_(part))).rowcount for part in chunks(ids))


def _in_chat(address: Address) -> ColumnElement[bool]:
    return (schedules.c.account == address.account) & (schedules.c.chat == address.chat)


def _row(row: Row[*tuple[Any, ...]]) -> ScheduleRow:
    return value_of(ScheduleRow, row, state=ScheduleState(row.state))
