"""Read-only queries of threads, runs and usage for the web page and the API, each by a key or an index.

The caller decides whose words a person may read (bot/http/resources/sight.py); nothing here filters by person unless
asked to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sqlalchemy import case, func, or_, select

from bot.store.rows import RunRow, RunState, value_of
from bot.store.tables import approvals, conversations, effects, outbox, run_events, runs, threads, usage
from bot.store.usage import CALLS, NOTHING, SUMMED, Spent, Totals

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, Row, Select

By = Literal["model", "chat", "person"]
_COLUMN_OF = {"model": usage.c.model, "chat": usage.c.conversation, "person": usage.c.speaker}
MOST_TIMED = 5000
"""Most runs that are read for timings."""


# Threads.


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadFacts:
    """One thread, or one person's part of it. begins: its first message that is still known, if it has no title. runs:
    those still known. current: it is its conversation's current thread. speaker: the person whose exchanges are meant;
    all other fields, including times and counts, then cover only these. "": the whole thread."""

    thread_id: str
    conversation: str
    owner: str
    title: str
    begins: str
    created_at: datetime
    touched_at: datetime | None
    runs: int
    current: bool
    speaker: str = ""

    @property
    def last_at(self) -> datetime:
        return self.touched_at or self.created_at


class ThreadCounts(NamedTuple):
    """Counts of other people's data, without its content."""

    threads: int
    owners: int
    runs: int


def threads_of(tx: Connection, person: str | None, limit: int, skip: int = 0) -> list[ThreadFacts]:
    """Return used threads, most recently used first: a person's own ones whole, and their parts of groups' threads.
    person: None for everybody's, all whole."""
    query, last = _threads().where(threads.c.touched_at.is_not(None)), threads.c.touched_at.desc()
    if person is not None:
        own = threads.c.owner == person
        query = query.where(or_(own, threads.c.thread_id.in_(_spoken_in(person))))
        asked = select(func.max(usage.c.at)).where(usage.c.thread_id == threads.c.thread_id, usage.c.speaker == person)
        last = case((own, threads.c.touched_at), else_=asked.scalar_subquery()).desc()
    found = tx.execute(query.order_by(last, threads.c.thread_id).limit(limit).offset(skip)).all()
    return [_thread(tx, row, "" if person is None or person == row.owner else person) for row in found]


def _spoken_in(person: str) -> Select[Any]:
    """Threads with known runs that answered a person; found through their usage, which is indexed by person."""
    of_theirs = (usage.c.speaker == person) & (runs.c.speaker == person)
    return select(runs.c.thread_id).join(usage, usage.c.run_id == runs.c.run_id).where(of_theirs).distinct()


def thread(tx: Connection, thread_id: str, speaker: str = "") -> ThreadFacts | None:
    """Return one thread, or the part of it that answered a speaker; None if it is unknown or to be deleted, or if the
    speaker was never answered in it."""
    row = tx.execute(_threads().where(threads.c.thread_id == thread_id)).first()
    found = None if row is None else _thread(tx, row, speaker)
    return found if found is None or found.runs or not speaker else None


def count_others(tx: Connection, person: str) -> ThreadCounts:
    """Count everybody else's threads, their owners, and their runs that are still known."""
    theirs = (threads.c.owner != person) & (threads.c.conversation != "") & threads.c.touched_at.is_not(None)
    query = select(func.count(), func.count(func.distinct(threads.c.owner))).select_from(threads).where(theirs)
    number, owners = tx.execute(query).one()
    ids = select(threads.c.thread_id).where(theirs)
    known = tx.scalar(select(func.count()).select_from(runs).where(runs.c.thread_id.in_(ids)))
    return ThreadCounts(number, owners, known or 0)


def _threads() -> Select[Any]:
    return (
        select(threads, conversations.c.thread_id.label("newest"))
        .outerjoin(conversations, conversations.c.key == threads.c.conversation)
        .where(threads.c.conversation != "")  # empty: the thread is about to be deleted
    )


def _thread(tx: Connection, row: Row[*tuple[Any, ...]], speaker: str = "") -> ThreadFacts:
    mine, title = (runs.c.conversation == row.conversation) & (runs.c.thread_id == row.thread_id), row.title
    began, last = row.created_at, row.touched_at
    if speaker:
        # Its title was also made from what others said.
        mine, title = mine & (runs.c.speaker == speaker), ""
        began, last = tx.execute(select(func.min(runs.c.created_at), func.max(runs.c.created_at)).where(mine)).one()
    first = None if title else tx.scalar(select(runs.c.input).where(mine).order_by(runs.c.seq).limit(1))
    return ThreadFacts(
        thread_id=row.thread_id,
        conversation=row.conversation,
        owner=row.owner,
        title=title,
        begins="" if first is None else first.words,
        created_at=began or row.created_at,
        touched_at=last,
        runs=tx.scalar(select(func.count()).select_from(runs).where(mine)) or 0,
        current=row.newest == row.thread_id,
        speaker=speaker,
    )


def owner_of_run(tx: Connection, run_id: str) -> str | None:
    """The owner of a run's thread; None if the run is unknown or the thread is to be deleted."""
    there = (threads.c.thread_id == runs.c.thread_id) & (threads.c.conversation != "")
    return tx.scalar(select(threads.c.owner).join(runs, there).where(runs.c.run_id == run_id))


# Runs of a thread.


def last_run(tx: Connection, thread_id: str) -> RunRow | None:
    """The most recently opened run of a thread, of those still known."""
    row = tx.execute(select(runs).where(runs.c.thread_id == thread_id).order_by(runs.c.seq.desc()).limit(1)).first()
    return None if row is None else value_of(RunRow, row, state=RunState(row.state))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """All that is stored of one run. events: (type, JSON), in order. calls: when each tool call began and when its
    result was recorded, by the call's id. spent: by the model that answered. asked: the approvals."""

    row: RunRow
    slot_wait: int | None
    first_words: int | None
    detail: str
    events: tuple[tuple[str, str], ...]
    calls: dict[str, tuple[datetime, datetime | None]] = field(default_factory=dict)
    spent: dict[str, Spent] = field(default_factory=dict)
    asked: tuple[tuple[str, str, str | None], ...] = ()


def runs_of_thread(tx: Connection, found: ThreadFacts, limit: int) -> list[RunRecord]:
    """The newest runs of a thread, or of the selected part of it, oldest first."""
    mine = (runs.c.conversation == found.conversation) & (runs.c.thread_id == found.thread_id)
    if found.speaker:
        mine &= runs.c.speaker == found.speaker
    rows = tx.execute(select(runs).where(mine).order_by(runs.c.seq.desc()).limit(limit)).all()
    return [_record(tx, row) for row in reversed(rows)]


def _record(tx: Connection, row: Row[*tuple[Any, ...]]) -> RunRecord:
    run_id = row.run_id
    told = select(run_events.c.type, run_events.c.body).where(run_events.c.run_id == run_id)
    began = select(effects.c.call_id, effects.c.started_at, effects.c.done_at).where(effects.c.run_id == run_id)
    asked = select(approvals.c.tool, approvals.c.shown, approvals.c.decision).where(approvals.c.run_id == run_id)
    mine = (usage.c.thread_id == row.thread_id) & (usage.c.run_id == run_id)
    return RunRecord(
        row=value_of(RunRow, row, state=RunState(row.state)),
        slot_wait=row.slot_wait,
        first_words=row.first_words,
        detail=row.detail or "",
        events=tuple((kind, body) for kind, body in tx.execute(told.order_by(run_events.c.seq))),
        calls={call: (start, done) for call, start, done in tx.execute(began)},
        spent=_sums(tx, usage.c.model, mine),
        asked=tuple(
            (tool, args, decision) for tool, args, decision in tx.execute(asked.order_by(approvals.c.asked_at))
        ),
    )


# Current activity.


def open_approvals(tx: Connection, now: datetime, limit: int, requester: str | None = None) -> list[str]:
    """The ids of open requests for approval, oldest first. requester: only of this person."""
    query = select(approvals.c.prompt_id).where(approvals.c.decision.is_(None), approvals.c.expires_at > now)
    if requester is not None:
        query = query.where(approvals.c.requester == requester)
    return list(tx.scalars(query.order_by(approvals.c.asked_at).limit(limit)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Timings of answers since some moment. first_words, whole, shown: sorted milliseconds from a run's start to its
    first words, from its start to its end, and from its end to complete delivery. endings: counts by state."""

    first_words: tuple[int, ...] = ()
    whole: tuple[int, ...] = ()
    shown: tuple[int, ...] = ()
    endings: dict[str, int] = field(default_factory=dict)


def timings(tx: Connection, since: datetime) -> Timings:
    """The timings of runs that ended since then, of at most the MOST_TIMED newest."""
    query = (
        select(runs.c.state, runs.c.first_words, runs.c.started_at, runs.c.ended_at, outbox.c.delivered_at)
        .outerjoin(outbox, (outbox.c.reply_key == runs.c.reply_key) & (outbox.c.part == 0))
        .where(runs.c.ended_at >= since)
        .order_by(runs.c.ended_at.desc())
        .limit(MOST_TIMED)
    )
    rows = tx.execute(query).all()
    endings: dict[str, int] = {}
    for row in rows:
        endings[row.state] = endings.get(row.state, 0) + 1
    return Timings(
        first_words=tuple(sorted(row.first_words for row in rows if row.first_words is not None)),
        whole=tuple(sorted(_milliseconds(row.started_at, row.ended_at) for row in rows if row.started_at is not None)),
        shown=tuple(
            sorted(_milliseconds(row.ended_at, row.delivered_at) for row in rows if row.delivered_at is not None)
        ),
        endings=endings,
    )


class FailedRun(NamedTuple):
    """A run that ended without a complete answer."""

    run_id: str
    conversation: str
    state: str
    detail: str
    ended_at: datetime


def failed_runs(tx: Connection, since: datetime, limit: int) -> list[FailedRun]:
    """The newest runs that failed or timed out since then."""
    failed = runs.c.state.in_((RunState.ERROR, RunState.TIMEOUT))
    query = select(runs.c.run_id, runs.c.conversation, runs.c.state, runs.c.detail, runs.c.ended_at)
    query = query.where(runs.c.ended_at >= since, failed).order_by(runs.c.ended_at.desc()).limit(limit)
    return [
        FailedRun(row.run_id, row.conversation, row.state, row.detail or "", row.ended_at) for row in tx.execute(query)
    ]


def _milliseconds(begin: datetime, end: datetime) -> int:
    return max(0, round((end - begin).total_seconds() * 1000))


# Usage.


def spent_by(
    tx: Connection, by: By, since: datetime, until: datetime, *, speaker: str | None = None
) -> dict[str, Spent]:
    """The cost of model calls in [since, until), by model, chat or person. speaker: only calls of their runs."""
    wanted = (usage.c.at >= since) & (usage.c.at < until)
    if speaker is not None:
        wanted &= usage.c.speaker == speaker
    return _sums(tx, _COLUMN_OF[by], wanted)


def spent_by_threads(tx: Connection, found: Sequence[ThreadFacts]) -> dict[str, Spent]:
    """The cost so far of these threads, or of the selected parts of them."""
    spent: dict[str, Spent] = {}
    for speaker in {each.speaker for each in found}:
        ids = [each.thread_id for each in found if each.speaker == speaker]
        wanted: ColumnElement[bool] = usage.c.thread_id.in_(ids)
        if speaker:
            wanted &= usage.c.speaker == speaker
        spent |= _sums(tx, usage.c.thread_id, wanted)
    return spent


def _sums(tx: Connection, key: ColumnElement[str], wanted: ColumnElement[bool]) -> dict[str, Spent]:
    sums = [func.coalesce(func.sum(usage.c[name]), 0) for name in SUMMED]
    query = select(key, usage.c.currency, *sums, CALLS, func.coalesce(func.sum(usage.c.cost), 0))
    found: dict[str, Spent] = {}
    for name, currency, *counts, cost in tx.execute(query.where(wanted).group_by(key, usage.c.currency)):
        more = Spent(Totals(*map(int, counts)), {} if currency is None else {currency: int(cost)})
        found[name] = found.get(name, Spent(NOTHING)) + more
    return found
