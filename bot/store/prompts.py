"""Buttons that wait for a press. An answer counts once, from whom it was asked, and in time."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, select, update

from bot.store.rows import PromptRow
from bot.store.sql import chunks, insert
from bot.store.tables import prompts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Row

PLAIN = tuple(field.name for field in fields(PromptRow))


def create(tx: Connection, row: PromptRow) -> None:
    """Record the question before its buttons are shown."""
    tx.execute(insert(tx, prompts), asdict(row) | {"answered_at": None, "expired": False})


def ensure(tx: Connection, rows: Sequence[PromptRow]) -> None:
    """create, for questions with ids that are derived and may be known already: then nothing changes."""
    if rows:
        values = [asdict(row) | {"answered_at": None, "expired": False} for row in rows]
        tx.execute(insert(tx, prompts).on_conflict_do_nothing(index_elements=["id"]), values)


def attach(tx: Connection, prompt_id: str, message_id: str) -> None:
    """Record which platform message shows the buttons."""
    tx.execute(update(prompts).where(prompts.c.id == prompt_id).values(message_id=message_id))


def load(tx: Connection, prompt_id: str) -> PromptRow | None:
    """One prompt, answered or not."""
    row = tx.execute(select(prompts).where(prompts.c.id == prompt_id)).first()
    return None if row is None else _row(row)


def answer(tx: Connection, prompt_id: str, who: str, answer: str, now: datetime) -> PromptRow | None:
    """Take the answer. None when it does not count: unknown, answered before, expired, or another person's to give."""
    open_for = (
        (prompts.c.id == prompt_id)
        & prompts.c.answer.is_(None)
        & ~prompts.c.expired
        & (prompts.c.expires_at > now)
        & (prompts.c.who.is_(None) | (prompts.c.who == who))
    )
    taken = update(prompts).where(open_for).values(answer=answer, answered_by=who, answered_at=now)
    row = tx.execute(taken.returning(prompts)).first()
    return None if row is None else _row(row)


def expire(tx: Connection, now: datetime) -> list[PromptRow]:
    """Close what nobody answered in time; each prompt is returned once."""
    late = prompts.c.answer.is_(None) & ~prompts.c.expired & (prompts.c.expires_at <= now)
    closed = tx.execute(update(prompts).where(late).values(expired=True).returning(prompts))
    return sorted((_row(row) for row in closed), key=lambda row: (row.expires_at, row.id))


def prune(tx: Connection, before: datetime, limit: int = 5000) -> int:
    """Forget prompts that ran out before that time, at most `limit`; returns how many."""
    old = select(prompts.c.id).where(prompts.c.expires_at < before).order_by(prompts.c.expires_at).limit(limit)
    ids = list(tx.scalars(old))
    return sum(tx.execute(delete(prompts).where(prompts.c.id.in_(part))).rowcount for part in chunks(ids))


def _row(row: Row[*tuple[Any, ...]]) -> PromptRow:
    return PromptRow(**{name: getattr(row, name) for name in PLAIN})
