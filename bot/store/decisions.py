"""Why an event was answered, dropped or refused: a record for operators who look into the database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import delete, select

from bot.store.sql import chunks, insert
from bot.store.tables import decisions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """One decision on one event; an event can have several."""

    inbox_id: int
    decision: str
    reason: str
    decided_at: datetime


def record(tx: Connection, inbox_ids: Sequence[int], decision: str, reason: str, now: datetime) -> None:
    """Keep what was decided on events, and why."""
    same = {"decision": decision, "reason": reason, "decided_at": now}
    if inbox_ids:
        tx.execute(insert(tx, decisions), [{"inbox_id": inbox_id, **same} for inbox_id in inbox_ids])


def recent(tx: Connection, limit: int) -> list[DecisionRow]:
    """The newest decisions, newest first."""
    return [
        DecisionRow(inbox_id=row.inbox_id, decision=row.decision, reason=row.reason, decided_at=row.decided_at)
        for row in tx.execute(select(decisions).order_by(decisions.c.id.desc()).limit(limit))
    ]


def prune(tx: Connection, before: datetime, limit: int = 5000) -> int:
    """Forget decisions made before that time, at most `limit`; returns how many."""
    old = select(decisions.c.id).where(decisions.c.decided_at < before).order_by(decisions.c.decided_at).limit(limit)
    ids = list(tx.scalars(old))
    return sum(tx.execute(delete(decisions).where(decisions.c.id.in_(part))).rowcount for part in chunks(ids))
