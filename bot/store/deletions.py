"""What is to be deleted, and how far that is: a row each, so that no crash ends it half way."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING

from sqlalchemy import delete, select, update

from bot.store.sql import chunks, insert_new
from bot.store.tables import deletions
from channels.message import Address

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection, Row


BY_AGE = "age"
"""Nobody asked for it: the thread had become too old."""


class DeletionKind(StrEnum):
    """THREAD: one thread. PERSON: everything of a person, as far as docs/privacy.md says."""

    THREAD = "thread"
    PERSON = "person"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionRow:
    """Columns are described in tables.py. address and reply_key: of the reply that tells how it goes, None for none."""

    id: str
    kind: DeletionKind
    subject: str
    account: str
    asked_by: str
    asked_at: datetime
    address: Address | None = None
    reply_key: str | None = None
    language: str = ""
    done_at: datetime | None = None


_PLAIN = tuple(field.name for field in fields(DeletionRow) if field.name not in ("kind", "address"))


def ask(tx: Connection, row: DeletionRow) -> None:
    """Record it, once."""
    values = {name: getattr(row, name) for name in _PLAIN} | {"kind": row.kind, "counts": "{}"}
    there = row.address
    values |= {
        "chat": there and there.chat,
        "topic": there and there.topic,
        "chat_kind": there and there.kind,
    }
    tx.execute(insert_new(tx.dialect.name, deletions), values)


def unfinished(tx: Connection) -> list[DeletionRow]:
    """What is still to be done, oldest first."""
    query = select(deletions).where(deletions.c.done_at.is_(None)).order_by(deletions.c.asked_at, deletions.c.id)
    return [_row(row) for row in tx.execute(query)]


def add_counts(tx: Connection, deletion_id: str, **more: int) -> None:
    """So much more was deleted, by the kind of what it was."""
    known = counts(tx, deletion_id)
    for name, count in more.items():
        known[name] = known.get(name, 0) + count
    tx.execute(update(deletions).where(deletions.c.id == deletion_id).values(counts=json.dumps(known)))


def counts(tx: Connection, deletion_id: str) -> dict[str, int]:
    """How much was deleted so far, by the kind of what it was."""
    found = tx.scalar(select(deletions.c.counts).where(deletions.c.id == deletion_id))
    known: dict[str, int] = json.loads(found or "{}")
    return known


def finish(tx: Connection, deletion_id: str, now: datetime) -> None:
    """All of it is gone."""
    tx.execute(update(deletions).where(deletions.c.id == deletion_id).values(done_at=now))


def prune(tx: Connection, before: datetime, limit: int = 5000) -> int:
    """Forget those that were done before that time, at most `limit`; returns how many."""
    old = select(deletions.c.id).where(deletions.c.done_at < before).order_by(deletions.c.done_at).limit(limit)
    ids = list(tx.scalars(old))
    return sum(tx.execute(delete(deletions).where(deletions.c.id.in_(part))).rowcount for part in chunks(ids))


def _row(row: Row[tuple[object, ...]]) -> DeletionRow:
    address = None
    if row.chat is not None:
        address = Address(account=row.account, chat=row.chat, topic=row.topic, kind=row.chat_kind)
    values = {name: getattr(row, name) for name in _PLAIN}
    return DeletionRow(kind=DeletionKind(row.kind), address=address, **values)
