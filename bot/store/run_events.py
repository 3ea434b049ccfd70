"""What happened in a run, in its order, for those who look later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import func, select

from bot.store.sql import insert_new
from bot.store.tables import run_events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

Event = tuple[int, str, str]
"""seq, type, JSON."""


def append(tx: Connection, run_id: str, events: Sequence[Event]) -> None:
    """Add events; one whose seq is there already is kept as it was, so that a repeat does no harm."""
    values = [{"run_id": run_id, "seq": seq, "type": kind, "body": body} for seq, kind, body in events]
    if values:
        tx.execute(insert_new(tx.dialect.name, run_events), values)


def read(tx: Connection, run_id: str, after_seq: int = -1) -> list[Event]:
    """The run's events after `after_seq`, in their order."""
    query = select(run_events.c.seq, run_events.c.type, run_events.c.body)
    query = query.where(run_events.c.run_id == run_id, run_events.c.seq > after_seq).order_by(run_events.c.seq)
    return [(row.seq, row.type, row.body) for row in tx.execute(query)]


def last_seq(tx: Connection, run_id: str) -> int | None:
    """The newest event's seq, None before the first."""
    newest: int | None = tx.scalar(select(func.max(run_events.c.seq)).where(run_events.c.run_id == run_id))
    return newest
