"""The cost of model calls, in tokens and money."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import bindparam, delete, func, insert, select

from bot.store.rows import columns_of
from bot.store.runs import CONVERSATION
from bot.store.sql import insert_once
from bot.store.tables import usage

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, Executable

NANO = 1_000_000_000
"""Costs are integers: billionths of their currency."""
CALLS = func.coalesce(func.sum(func.coalesce(usage.c.calls, 1)), 0)
"""The number of calls that the rows represent."""
SINGLE = usage.c.calls.is_(None)
SUMMED = ("input_tokens", "output_tokens", "cached_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """One model call. call: its id, so that it counts once however often it is written. cost: None without a price."""

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
    """The sum of some calls. totals: of all of them. costs: by currency, of those that had a price."""

    totals: Totals = NOTHING
    costs: Mapping[str, int] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return self.totals.input + self.totals.output

    def __add__(self, other: Spent) -> Spent:
        totals = Totals(*(mine + its for mine, its in zip(self.totals, other.totals, strict=True)))
        return Spent(totals, Counter(self.costs) + Counter(other.costs))


def add(tx: Connection, rows: Sequence[UsageRow]) -> None:
    """Record model calls; a call that is already recorded counts once. A run's call is booked on the run's conversation
    under its current key."""
    if rows:
        values = [columns_of(row) | {"by": row.run_id, "told": row.conversation} for row in rows]
        for each in values:
            del each["conversation"]
        tx.execute(_adding(tx.dialect.name), values)


@cache
def _adding(dialect: str) -> Executable:
    # The lock delays a move of the chat until this is committed, so that the move's update finds these rows.
    theirs = CONVERSATION.with_for_update(read=True).scalar_subquery()
    return insert_once(dialect, usage.c.call).values(conversation=func.coalesce(theirs, bindparam("told")))


def thread_totals(tx: Connection, thread_id: str) -> Totals:
    """The totals of a thread so far."""
    return spent(tx, thread_id=thread_id).totals


class Call(NamedTuple):
    """One model call, or the sum of several with the same conversation, speaker and currency."""

    conversation: str
    speaker: str
    spent: Spent


NEAR = 1000
"""How far below the newest id others may still be missing because their transactions are not committed yet."""


class Read(NamedTuple):
    """A query's result. newest: the newest call's id. ids: of the calls; for a whole day, only those near `newest`."""

    newest: int
    ids: frozenset[int]
    calls: Sequence[Call]


def of_day(tx: Connection, since: datetime) -> Read:
    """Return the calls recorded at `since` or later, summed by conversation, person and currency."""
    newest: int = tx.execute(select(func.coalesce(func.max(usage.c.id), 0))).scalar_one()
    sums = [func.sum(usage.c[name]) for name in SUMMED]
    keys = (usage.c.conversation, usage.c.speaker, usage.c.currency)
    query = select(*keys, *sums, CALLS, func.coalesce(func.sum(usage.c.cost), 0)).group_by(*keys)
    calls = [_call(*row) for row in tx.execute(query.where(usage.c.at >= since, usage.c.id <= newest))]
    return Read(newest, frozenset(tx.scalars(select(usage.c.id).where(usage.c.id > newest - NEAR))), calls)


def since_then(tx: Connection, since: datetime, last: int, missing: Collection[int] = ()) -> Read:
    """Return what `of_day` does, but only for the calls after the id `last` and those whose ids were `missing`."""
    tokens = (usage.c.input_tokens, usage.c.output_tokens, usage.c.cached_tokens)
    query = select(
        usage.c.id, usage.c.at, usage.c.conversation, usage.c.speaker, usage.c.currency, *tokens, usage.c.cost
    )
    wanted = (usage.c.id > last) | usage.c.id.in_(missing) if missing else usage.c.id > last
    found = tx.execute(query.where(wanted).order_by(usage.c.id)).all()
    # Not a condition of the query: the index on these times would make the database scan the whole day.
    calls = [_call(*rest[:-1], 1, rest[-1] or 0) for _, at, *rest in found if at >= since]
    return Read(max(last, found[-1].id) if found else last, frozenset(row.id for row in found), calls)


def _call(conversation: str, speaker: str, currency: str | None, *counts: int) -> Call:
    *totals, cost = map(int, counts)
    return Call(conversation, speaker, Spent(Totals(*totals), {} if currency is None else {currency: cost}))


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
    """Return the cost of the calls that match all given criteria: run (fast together with its thread_id), thread,
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
    sums = [func.coalesce(func.sum(usage.c[name]), 0) for name in SUMMED]
    query = select(usage.c.currency, *sums, CALLS, func.coalesce(func.sum(usage.c.cost), 0))
    totals, costs = NOTHING, {}
    for currency, *counts, cost in tx.execute(query.where(*wanted).group_by(usage.c.currency)):
        totals = Totals(*(known + int(more) for known, more in zip(totals, counts, strict=True)))
        if currency is not None:
            costs[currency] = int(cost)
    return Spent(totals, costs)


# Old calls: one row sums up all calls of one day by thread, conversation, person, model and currency.


def oldest_single(tx: Connection, before: datetime) -> datetime | None:
    """Return when the oldest call before that time that still has its own row was recorded."""
    return tx.scalar(select(usage.c.at).where(SINGLE, usage.c.at < before).order_by(usage.c.at).limit(1))


def threads_between(tx: Connection, since: datetime, until: datetime) -> list[str]:
    """The threads with calls in [since, until) that still have their own rows."""
    there = SINGLE & (usage.c.at >= since) & (usage.c.at < until)
    return list(tx.scalars(select(usage.c.thread_id).where(there).distinct()))


def fold(tx: Connection, threads: Sequence[str], since: datetime, until: datetime) -> None:
    """Replace the calls in [since, until) of these threads by their sums, which no longer show which run made a call,
    and when."""
    theirs = SINGLE & usage.c.thread_id.in_(threads) & (usage.c.at >= since) & (usage.c.at < until)
    keys = (usage.c.thread_id, usage.c.conversation, usage.c.speaker, usage.c.model, usage.c.currency)
    first = [func.min(usage.c[name]).label(name) for name in ("id", "call", "at")]
    sums = [func.sum(usage.c[name]).label(name) for name in (*SUMMED, "cost")]
    query = select(*keys, *first, *sums, func.count().label("calls")).where(theirs)
    rows = tx.execute(query.group_by(*keys, usage.c.cost.is_(None))).mappings().all()
    tx.execute(delete(usage).where(theirs))
    if rows:
        tx.execute(insert(usage), [{**row, "run_id": ""} for row in rows])
