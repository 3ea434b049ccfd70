"""Runs: opened together with their messages, started, suspended and ended in permanently named states."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Text, and_, bindparam, case, delete, func, or_, select, type_coerce, update

from bot.store import inbox, memories
from bot.store.errors import StoreError
from bot.store.rows import InboxState, RunRow, RunState, columns_of, value_of
from bot.store.sql import chunks, insert_once
from bot.store.tables import approvals, effects, outbox, run_events, runs, threads
from bot.store.tables import inbox as inbox_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, Row, Select

    from harness.context import InputFile, RunInput

OPEN_STATES = tuple(state for state in RunState if not state.ended)
ACTIVE_STATES = (RunState.RUNNING, RunState.WAITING)
# Built once: building a statement costs more than running it.
RUNS = select(runs)
ONE_RUN = RUNS.where(runs.c.run_id == bindparam("run_id"))
THIS_RUN = runs.c.run_id == bindparam("run")
STILL_OPEN = or_(*(runs.c.state == state for state in OPEN_STATES))
NEW_HEAD = bindparam("new_head", type_=runs.c.head.type)
REPEATED = and_(
    runs.c.attempt > 0,
    runs.c.head.is_not_distinct_from(NEW_HEAD),
    ~runs.c.suspended,
    runs.c.state != RunState.WAITING,
)
START = (
    update(runs)
    .where(THIS_RUN, STILL_OPEN)
    .values(
        state=RunState.RUNNING,
        head=NEW_HEAD,
        base_checkpoint_id=case((runs.c.attempt > 0, runs.c.base_checkpoint_id), else_=NEW_HEAD),
        attempt=case((REPEATED, runs.c.attempt + 1), else_=1),
        suspended=False,
        epoch=bindparam("own_epoch"),
        model_calls=runs.c.model_calls + bindparam("calls"),
        started_at=func.coalesce(runs.c.started_at, bindparam("now", type_=runs.c.started_at.type)),
    )
    .returning(runs)
)
END = (
    update(runs)
    .where(THIS_RUN, STILL_OPEN)
    .values(
        state=bindparam("ending"),
        ended_at=bindparam("at"),
        detail=bindparam("why"),
        suspended=False,
        slot_wait=bindparam("slot"),
        first_words=bindparam("words"),
    )
)
END_MESSAGES = (
    update(inbox_table)
    .where(inbox_table.c.run_id == bindparam("run"), inbox_table.c.state == InboxState.ASSIGNED)
    .values(state=InboxState.DONE, reason=bindparam("why"))
)
TOUCHED = {"touched_at": bindparam("now", type_=threads.c.touched_at.type), "condensed_at": None}
TOUCH = update(threads).where(threads.c.thread_id == bindparam("thread")).values(TOUCHED)
COUNT_CALL = update(runs).where(THIS_RUN).values(model_calls=runs.c.model_calls + 1).returning(runs.c.model_calls)
DEAD_LETTER = "dead letter"
"""The detail of a run that was abandoned because the process died repeatedly while it was running."""
NEVER_WANTED = "dropped"
"""The detail of a run that was dropped before it started."""
JOINED = "joined"
"""The detail of a run that never started because an active run took its messages."""
UNDONE = "undone"
"""The detail of a run that the agent was made to forget after it had ended."""
RUNS_LOOKED_AT, MOST_PEOPLE = 30, 10
"""Bounds for listing the speakers of a conversation: its newest runs, and the people named."""
FORGOTTEN = (UNDONE, "rollback", "admin_rollback")
"""The details of all runs that the agent was made to forget; those besides UNDONE are StopReasons that rewind."""
LAST_ENDED = (
    RUNS.where(
        runs.c.conversation == bindparam("conversation"),
        runs.c.thread_id == bindparam("thread"),
        runs.c.ended_at.is_not(None),
    )
    .order_by(runs.c.ended_at.desc(), runs.c.seq.desc())
    .limit(1)
)
LAST_WORKED = LAST_ENDED.where(
    or_(runs.c.attempt > 0, runs.c.detail.is_(None), runs.c.detail.not_in((NEVER_WANTED, JOINED))),
    or_(runs.c.detail.is_(None), runs.c.detail != UNDONE),
)
LAST_ANSWER = select(outbox.c.body).where(
    outbox.c.reply_key == LAST_WORKED.with_only_columns(runs.c.reply_key).scalar_subquery(),
    outbox.c.part == 0,
    outbox.c.final,
)
LAST_KEPT = LAST_ENDED.where(runs.c.attempt > 0, or_(runs.c.detail.is_(None), runs.c.detail.not_in(FORGOTTEN)))


class RunEnded(StoreError):
    """An ended run cannot be started."""


class RunUnknown(StoreError, LookupError):
    """A run cannot be started because it was never opened."""


def open(tx: Connection, row: RunRow) -> None:
    """Insert a run and assign its messages. Raises AlreadyAssigned when one of them is taken; then no run is inserted.
    Does nothing if an earlier attempt was committed but its answer was lost with the connection."""
    if tx.execute(insert_once(tx.dialect.name, runs.c.run_id), columns_of(row) | {"suspended": False}).rowcount == 0:
        return
    tx.execute(TOUCH, {"thread": row.thread_id, "now": row.created_at})
    inbox.assign(tx, row.inbox_ids, row.run_id)


def start(tx: Connection, run_id: str, head: str | None, now: datetime, epoch: int, *, calls: int = 0) -> RunRow:
    """Mark a run as running and count the attempt. Raises RunEnded, RunUnknown.

    head: the thread's newest checkpoint now. calls: model calls that the run is about to make, which are counted here.

    The attempt is 1 at the first start, if the run made a checkpoint since the last start, if it waited for a person,
    and if it was stopped as planned (`suspend`); otherwise it is incremented.
    """
    changes = {"run": run_id, "new_head": head, "own_epoch": epoch, "now": now, "calls": calls}
    started = tx.execute(START, changes).first()
    if started is not None:
        return _row(started)
    row = tx.execute(ONE_RUN, {"run_id": run_id}).first()
    if row is None:
        raise RunUnknown(f"no run {run_id}")
    raise RunEnded(f"run {run_id} has ended: {row.state}")


def wait(tx: Connection, run_id: str) -> bool:
    """Pause a run until a person has decided. It stays its conversation's only active run, and earlier deaths of
    processes no longer count against it. False when it was not running."""
    running = (runs.c.run_id == run_id) & (runs.c.state == RunState.RUNNING)
    return tx.execute(update(runs).where(running).values(state=RunState.WAITING, deaths=())).rowcount > 0


def suspend(tx: Connection, run_id: str) -> None:
    """Record a planned stop: the run is pending again and its next start is no new attempt."""
    active_run = (runs.c.run_id == run_id) & runs.c.state.in_(ACTIVE_STATES)
    tx.execute(update(runs).where(active_run).values(state=RunState.PENDING, suspended=True))


def ask_to_stop(tx: Connection, run_id: str, reason: str) -> None:
    """Record why a run is being ended, before its work is stopped: after a crash it does not continue.

    The first reason counts. Does nothing if the run has already ended.
    """
    still_open = (runs.c.run_id == run_id) & runs.c.state.in_(OPEN_STATES) & runs.c.stop.is_(None)
    tx.execute(update(runs).where(still_open).values(stop=reason))


def put_ahead(tx: Connection, run_id: str, ahead: int) -> None:
    """Let a waiting run go before those with a smaller number."""
    tx.execute(update(runs).where(runs.c.run_id == run_id).values(ahead=ahead))


@dataclass(frozen=True, slots=True)
class Waits:
    """A run's waiting times in milliseconds, for a slot and for its first words; None if it did not get that far."""

    slot: int | None = None
    words: int | None = None


def end(
    tx: Connection, run_id: str, state: RunState, now: datetime, detail: str | None = None, waits: Waits | None = None
) -> bool:
    """End a run in this state; its messages not settled otherwise become done. False if it had already ended."""
    if not state.ended:
        raise ValueError(f"{state} is not an ending")
    waits = waits or Waits()
    about = {"why": detail, "slot": waits.slot, "words": waits.words}
    ended = tx.execute(END, {"run": run_id, "ending": state, "at": now} | about)
    if ended.rowcount == 0:
        return False
    tx.execute(END_MESSAGES, {"run": run_id, "why": state})
    return True


def extend(tx: Connection, run_id: str, inbox_ids: Iterable[int], run_input: RunInput) -> None:
    """Merge further messages into a run: they are assigned to it, and `run_input` is what it answers."""
    row = tx.execute(select(runs.c.inbox_ids).where(runs.c.run_id == run_id)).one()
    added = tuple(inbox_id for inbox_id in inbox_ids if inbox_id not in row.inbox_ids)
    inbox.assign(tx, added, run_id)
    changes = {"inbox_ids": row.inbox_ids + added, "input": run_input}
    tx.execute(update(runs).where(runs.c.run_id == run_id).values(changes))


def join(tx: Connection, run_id: str, joined: str, run_input: RunInput, now: datetime) -> bool:
    """Let an active run take over the messages of the waiting run `joined`: that run ends, its messages move to the
    active one, which now answers `run_input`. False if the waiting run had already ended; then nothing changes."""
    ended = tx.execute(
        END, {"run": joined, "ending": RunState.INTERRUPTED, "at": now, "why": JOINED, "slot": None, "words": None}
    )
    if ended.rowcount == 0:
        return False
    theirs = (inbox_table.c.run_id == joined) & (inbox_table.c.state == InboxState.ASSIGNED)
    tx.execute(update(inbox_table).where(theirs).values(run_id=run_id))
    set_input(tx, run_id, run_input)
    return True


def set_input(tx: Connection, run_id: str, run_input: RunInput) -> None:
    tx.execute(update(runs).where(runs.c.run_id == run_id).values(input=run_input))


def change_input(tx: Connection, row: RunRow, run_input: RunInput) -> None:
    """Replace what an ended run answered, and the earlier runs that answered the same, so that `undo` finds all."""
    tx.execute(update(runs).where(_same(row)).values(input=run_input))


def _same(row: RunRow) -> ColumnElement[bool]:
    """The ended runs that answered the same as this one, which is among them."""
    given = select(runs.c.input).where(runs.c.run_id == row.run_id).scalar_subquery()
    return and_(runs.c.thread_id == row.thread_id, runs.c.input == given, runs.c.ended_at.is_not(None))


def count_model_call(tx: Connection, run_id: str) -> int:
    """Count another model call; return the count. Raises sqlalchemy's NoResultFound for an unknown run."""
    return int(tx.execute(COUNT_CALL, {"run": run_id}).scalar_one())


def load(tx: Connection, run_id: str) -> RunRow | None:
    row = tx.execute(ONE_RUN, {"run_id": run_id}).first()
    return None if row is None else _row(row)


def answering(tx: Connection, inbox_id: int) -> RunRow | None:
    """The run that answers or answered an event."""
    run_id = tx.scalar(select(inbox_table.c.run_id).where(inbox_table.c.id == inbox_id))
    return None if run_id is None else load(tx, run_id)


CONVERSATION = select(runs.c.conversation).where(runs.c.run_id == bindparam("by"))


def conversation_of(tx: Connection, run_id: str) -> str | None:
    """A run's conversation, under its chat's current id."""
    conversation: str | None = tx.scalar(CONVERSATION, {"by": run_id})
    return conversation


def detail_of(tx: Connection, run_id: str) -> str | None:
    """The detail of a run's end."""
    detail: str | None = tx.scalar(select(runs.c.detail).where(runs.c.run_id == run_id))
    return detail


def unended(tx: Connection) -> list[RunRow]:
    """All runs that a starting program must handle, oldest first; `in_turn` orders those of a conversation."""
    return _rows(tx, RUNS.where(runs.c.state.in_(OPEN_STATES)).order_by(runs.c.seq))


def oldest_pending(tx: Connection) -> datetime | None:
    """When the oldest pending run was opened."""
    oldest: datetime | None = tx.scalar(select(func.min(runs.c.created_at)).where(runs.c.state == RunState.PENDING))
    return oldest


def died_at_work(row: RunRow) -> bool:
    """Whether a run found by a new process was running when the last process died, and that is not recorded yet.

    The columns it depends on are written when a run is started, suspended, ended or begins to wait, so nothing needs to
    be written while it works; a run that was not restarted since the last death was not running at a later one.
    """
    return row.state is RunState.RUNNING and row.epoch not in row.deaths


def record_deaths(tx: Connection, rows: Iterable[RunRow]) -> list[RunRow]:
    """Record the death in each run that `died_at_work`; return all of the runs as they are now."""
    return [_with_death(tx, row) if died_at_work(row) else row for row in rows]


def _with_death(tx: Connection, row: RunRow) -> RunRow:
    deaths = (*row.deaths, row.epoch)
    tx.execute(update(runs).where(runs.c.run_id == row.run_id).values(deaths=deaths))
    return replace(row, deaths=deaths)


def forgive(tx: Connection, run_id: str) -> None:
    """Clear the deaths of processes recorded for a run: it has progressed since."""
    tx.execute(update(runs).where(runs.c.run_id == run_id).values(deaths=()))


def deaths_against(tx: Connection, row: RunRow) -> int:
    """How many of its deaths count against a run: those at which no other run was active, or all the others have since
    ended without another death."""
    kept = runs.c.ended_at.is_(None) | (runs.c.ended_at >= row.created_at)  # for the index
    others = select(runs.c.state, runs.c.detail, runs.c.deaths).where(
        kept, runs.c.deaths != (), runs.c.run_id != row.run_id
    )
    doubtful = {death for other in tx.execute(others) if not _lived(other) for death in other.deaths}
    return sum(death not in doubtful for death in row.deaths)


def _lived(other: Row[*tuple[Any, ...]]) -> bool:
    """Whether a run ended by itself without another death. A stopped run might have killed a process again."""
    state = RunState(other.state)
    return state.ended and state is not RunState.INTERRUPTED and other.detail != DEAD_LETTER


def in_turn(row: RunRow) -> tuple[bool, bool, int]:
    """Return the sort key for a conversation's runs, given oldest first: runs being ended, runs that had started, runs
    put ahead, the others."""
    return (row.stop is None, row.attempt == 0, -(row.ahead or 0))


def active(tx: Connection, conversation: str) -> RunRow | None:
    """The running or waiting run of a conversation; there is at most one."""
    query = RUNS.where(runs.c.conversation == conversation, runs.c.state.in_(ACTIVE_STATES))
    found = _rows(tx, query)
    return found[0] if found else None


def queued(tx: Connection, conversation: str) -> list[RunRow]:
    """The pending runs of a conversation, in order; a suspended run is the first."""
    query = RUNS.where(runs.c.conversation == conversation, runs.c.state == RunState.PENDING)
    return sorted(_rows(tx, query.order_by(runs.c.seq)), key=in_turn)


def recent(tx: Connection, conversation: str, limit: int) -> list[RunRow]:
    """The newest runs of a conversation, newest first."""
    return _rows(tx, RUNS.where(runs.c.conversation == conversation).order_by(runs.c.seq.desc()).limit(limit))


def others_who_spoke(tx: Connection, conversation: str, person: str) -> tuple[str, ...]:
    """The names of other people to whom the newest runs there belong, most recent speaker first."""
    query = select(runs.c.context).where(runs.c.conversation == conversation, runs.c.speaker != person)
    speakers = [context.speaker for context in tx.scalars(query.order_by(runs.c.seq.desc()).limit(RUNS_LOOKED_AT))]
    names = {speaker.id: speaker.display_name for speaker in reversed(speakers) if speaker.display_name}
    order = dict.fromkeys(speaker.id for speaker in speakers if speaker.id in names)
    return tuple(names[who] for who in order)[:MOST_PEOPLE]


def with_files(tx: Connection, since: datetime) -> list[RunRow]:
    """The runs opened since then for messages with files."""
    recent = runs.c.ended_at.is_(None) | (runs.c.ended_at >= since)  # for the index
    query = RUNS.where(recent, runs.c.created_at >= since, type_coerce(runs.c.input, Text).like('%"files":[{%'))
    # Not sorted by the database, which would scan all runs for that.
    return sorted(_rows(tx, query), key=lambda row: row.created_at)


def files_of(tx: Connection, thread_id: str) -> list[InputFile]:
    """The files that people sent in a thread, the newest first."""
    theirs = (runs.c.thread_id == thread_id) & type_coerce(runs.c.input, Text).like('%"files":[{%')
    rows = _rows(tx, RUNS.where(theirs).order_by(runs.c.seq.desc()))
    return [file for row in rows for file in row.input.whole.files]


def last_worked(tx: Connection, conversation: str, thread_id: str) -> RunRow | None:
    """The run that ended last in that thread, in any state, except runs dropped before they started, joined to another
    or undone."""
    return _last_ended(tx, LAST_WORKED, conversation, thread_id)


def last_answer(tx: Connection, conversation: str, thread_id: str) -> str | None:
    """The answer of `last_worked` (OutboundMessage as JSON), None if it has none."""
    return tx.scalar(LAST_ANSWER, {"conversation": conversation, "thread": thread_id})


def last_kept(tx: Connection, conversation: str, thread_id: str) -> RunRow | None:
    """The last ended run of that thread that the agent still remembers."""
    return _last_ended(tx, LAST_KEPT, conversation, thread_id)


def _last_ended(tx: Connection, query: Select[Any], conversation: str, thread_id: str) -> RunRow | None:
    row = tx.execute(query, {"conversation": conversation, "thread": thread_id}).first()
    return None if row is None else _row(row)


def undo(tx: Connection, row: RunRow) -> None:
    """Mark an ended run, and the earlier answers to the same message, as forgotten by the agent."""
    undone = tx.scalars(update(runs).where(_same(row)).values(detail=UNDONE).returning(runs.c.run_id))
    memories.drop_turns_of_runs(tx, list(undone))


def old(tx: Connection, before: datetime, limit: int) -> list[str]:
    """The ids of runs that ended before that time, at most `limit`."""
    query = select(runs.c.run_id).where(runs.c.ended_at < before)
    return list(tx.scalars(query.order_by(runs.c.ended_at).limit(limit)))


def remove(tx: Connection, ids: Sequence[str]) -> None:
    """Delete runs and all their data. A thread left without runs may be condensed again: nothing can be undone."""
    left = select(runs.c.run_id).where(runs.c.thread_id == threads.c.thread_id)
    for part in chunks(ids):
        of = list(tx.scalars(select(runs.c.thread_id).where(runs.c.run_id.in_(part)).distinct()))
        for table in (run_events, effects, approvals, runs):
            tx.execute(delete(table).where(table.c.run_id.in_(part)))
        tx.execute(update(threads).where(threads.c.thread_id.in_(of), ~left.exists()).values(condensed_at=None))


def _rows(tx: Connection, query: Select[Any]) -> list[RunRow]:
    return [_row(row) for row in tx.execute(query)]


def _row(row: Row[*tuple[Any, ...]]) -> RunRow:
    return value_of(RunRow, row, state=RunState(row.state))
