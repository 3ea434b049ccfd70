"""What model calls cost, in tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import func, select

from bot.store.sql import insert
from bot.store.tables import usage

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection


class Totals(NamedTuple):
    """Tokens, and the number of model calls. `cached` is a part of `input`."""

    input: int
    output: int
    cached: int
    calls: int


def add(
    tx: Connection,
    *,
    run_id: str,
    thread_id: str,
    model: str,
    input_tokens: int,
    output_tokens: int,
    cached_tokens: int,
    now: datetime,
) -> None:
    """Record one model call."""
    values = {
        "run_id": run_id,
        "thread_id": thread_id,
        "model": model,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cached_tokens": cached_tokens,
        "at": now,
    }
    tx.execute(insert(tx, usage), values)


def thread_totals(tx: Connection, thread_id: str) -> Totals:
    """What a thread has cost so far."""
    sums = [func.coalesce(func.sum(column), 0) for column in (usage.c.input_tokens, usage.c.output_tokens)]
    cached = func.coalesce(func.sum(usage.c.cached_tokens), 0)
    row = tx.execute(select(*sums, cached, func.count()).where(usage.c.thread_id == thread_id)).one()
    return Totals(*(int(value) for value in row))
