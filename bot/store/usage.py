"""What model calls cost, in tokens and money."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import func, select

from bot.store.sql import insert_once
from bot.store.tables import usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection

NANO = 1_000_000_000
"""Costs are integers: billionths of their currency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """One model call. call: names it, so that it counts once however often it is written. cost: None: no price."""

    call: str
    run_id: str
    thread_id: str
    conversation: str
    speaker: str
    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost: int | None
    currency: str | None
    at: datetime


class Totals(NamedTuple):
    """Tokens, and the number of model calls. `cached` is a part of `input`."""

    input: int
    output: int
    cached: int
    calls: int


NOTHING = Totals(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Spent:
    """totals: of all calls. costs: by currency, of those that had a price."""

    totals: Totals = NOTHING
    costs: Mapping[str, int] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return self.totals.input + self.totals.output


def add(tx: Connection, rows: Sequence[UsageRow]) -> None:
    """Record model calls; one that is recorded already counts once."""
    values = [{column.name: getattr(row, column.name) for column in usage.c if column.name != "id"} for row in rows]
    if values:
        tx.execute(insert_once(tx.dialect.name, usage.c.call), values)


def thread_totals(tx: Connection, thread_id: str) -> Totals:
    """What a thread has cost so far."""
    return spent(tx, thread_id=thread_id).totals


def spent(
    tx: Connection,
    *,
    run_id: str | None = None,
    thread_id: str | None = None,
    conversation: str | None = None,
    speaker: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Spent:
    """What the calls cost that all of this is true of: of that run (with its thread_id it is found fast), thread,
    conversation, person; recorded at `since` or later, and before `until`."""
    wanted: list[ColumnElement[bool]] = []
    for column, value in (
        (usage.c.run_id, run_id),
        (usage.c.thread_id, thread_id),
        (usage.c.conversation, conversation),
        (usage.c.speaker, speaker),
    ):
        if value is not None:
            wanted.append(column == value)
    if since is not None:
        wanted.append(usage.c.at >= since)
    if until is not None:
        wanted.append(usage.c.at < until)
    sums = [func.coalesce(func.sum(usage.c[name]), 0) for name in ("input_tokens", "output_tokens", "cached_tokens")]
    query = select(usage.c.currency, *sums, func.count(), func.coalesce(func.sum(usage.c.cost), 0))
    totals, costs = NOTHING, {}
    for currency, *counts, cost in tx.execute(query.where(*wanted).group_by(usage.c.currency)):
        totals = Totals(*(known + int(more) for known, more in zip(totals, counts, strict=True)))
        if currency is not None:
            costs[currency] = int(cost)
    return Spent(totals, costs)
