"""What happened in a run, in its order, for those who look later."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, func, select

from bot.store.sql import insert_new
from bot.store.tables import effects, run_events

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


# Built once: they run with the end of every turn.
STARTED = select(run_events.c.body).where(run_events.c.run_id == bindparam("run"), run_events.c.type == "tool_started")
BEGUN = select(effects.c.tool).where(effects.c.run_id == bindparam("run"))


def tools_called(tx: Connection, run_id: str) -> set[str]:
    """The names of the tools that the run called, those included of which a crash left no event."""
    told = {str(json.loads(body)["tool"]) for body in tx.scalars(STARTED, {"run": run_id})}
    return told | set(tx.scalars(BEGUN, {"run": run_id}))
