"""The exchange between gateways and workers about runs: orders, and the events reported so far. PostgreSQL only.

The gateway orders the work on a run: one row, and a procrastinate job in the same transaction. The worker that takes
the job writes the run's events, many per row, and ends the order together with the job. Only ids pass between them
through NOTIFY; both read rows. Events on the way to the next row form a draft, which replaces the previous draft and
may be lost. procrastinate's functions are called in SQL, so that ordering work needs neither its package nor another
connection.

A worker may write as long as its registration exists (`check_worker`): a process that declares it dead first deletes
that, which waits for the worker's current commit and rejects all later ones.

Any other request of a gateway to a worker is a call: also an order, whose id begins with CALL. It has two parts, the
request and the answer, and a separate queue: workers from before there were calls do not take them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, Table, delete, select, text, update

from bot.store.errors import Fenced, StoreUnavailable
from bot.store.rows import RunState
from bot.store.runs import OPEN_STATES
from bot.store.sql import END_FROZEN, SafeText, insert_new
from bot.store.tables import metadata, runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Row

CHANNEL = "antler_gateway"
"""The NOTIFY channel: a run's id whenever it has reported something, SCHEDULES when a reminder was created."""
SCHEDULES = "schedules"
QUEUE, TASK = "antler", "antler.run"
CALL_QUEUE, CALL_TASK = "antler.calls", "antler.call"
QUEUES = (QUEUE, CALL_QUEUE)
CALL = "call:"
ASKED, ANSWERED = 1, 2
"""The part numbers of a call's request and answer."""
STALLED_SECONDS = 30.0
"""Time without a heartbeat after which a worker is declared dead. Heartbeats are sent every ten seconds."""

worker_runs = Table(
    "worker_runs",
    metadata,
    Column("run_id", SafeText, primary_key=True, doc="the ordered run, or a call's id"),
    Column(
        "thread_id", SafeText, nullable=False, doc="its thread; jobs of one thread never run concurrently; empty: none"
    ),
    Column("job", BigInteger, nullable=False, doc="procrastinate's id of the newest job"),
    Column("attempt", Integer, nullable=False, doc="the run's start, as counted by the gateway"),
    Column("since", Integer, nullable=False, doc="number of the run's first event under this order"),
    Column("state", SafeText, nullable=False, doc="open, done or stopped"),
    Column("worker", BigInteger, nullable=True, doc="worker that took it; null: not taken, or put back"),
    Column("deaths", Integer, nullable=False, doc="number of workers that died on it since it last progressed"),
    Column("asked", Integer, nullable=False, doc="number of times the worker asked for messages sent during the run"),
    Column("heard", Integer, nullable=False, doc="newest of these questions that was answered"),
    Index(None, "thread_id"),
    Index(None, "state"),
)

worker_events = Table(
    "worker_events",
    metadata,
    Column("run_id", SafeText, nullable=False, doc="run that the events belong to"),
    Column("part", Integer, nullable=False, doc="position in the order, from 1"),
    Column(
        "body",
        SafeText,
        nullable=False,
        doc="harness.events as a JSON list, deltas of a message joined; for a call see bot.workers.calls",
    ),
    PrimaryKeyConstraint("run_id", "part"),
)

worker_drafts = Table(
    "worker_drafts",
    metadata,
    Column("run_id", SafeText, primary_key=True, doc="run that the draft belongs to"),
    Column("part", Integer, nullable=False, doc="number of the part that will replace it"),
    Column("body", SafeText, nullable=False, doc="events of that part so far, as in worker_events"),
)
"""Unlogged: lost when the server crashes."""


class OrderState(StrEnum):
    """OPEN: waits for a worker, or a worker is on it. DONE: the run reported everything, its last event is the end or a
    question. STOPPED: the gateway no longer wanted it."""

    OPEN = "open"
    DONE = "done"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One row of worker_runs."""

    run_id: str
    thread_id: str
    job: int
    attempt: int
    since: int
    state: OrderState
    worker: int | None
    deaths: int
    asked: int
    heard: int


class Part(NamedTuple):
    """Events that a run reported. whole: False for a draft, which the complete part replaces. body: events as JSON."""

    number: int
    whole: bool
    body: str


DEFER = text(
    "SELECT (procrastinate_defer_jobs_v1(ARRAY[ROW(:queue, :task, 0, :lock, :once, CAST(:args AS jsonb), NULL)]"
    "::procrastinate_job_to_defer_v1[]))[1]"
)
CANCEL = text("SELECT procrastinate_cancel_job_v1(:job, true, true)")
JOB_LEFT = text("SELECT 1 FROM procrastinate_jobs WHERE id = :job AND status = 'doing'")
END_JOB = text("DELETE FROM procrastinate_jobs WHERE id = :job")
END_JOBS = text("DELETE FROM procrastinate_jobs WHERE queue_name = ANY(:queues)")
HAD_WORKERS = text("SELECT to_regclass('procrastinate_workers')")
END_WORKERS = text("DELETE FROM procrastinate_workers")
# Like procrastinate_retry_job_v2, without an error for a job that was already put back: units may run twice.
PUT_BACK = text(
    "UPDATE procrastinate_jobs SET status = 'todo', worker_id = NULL, attempts = attempts + 1 "
    "WHERE id = :job AND status = 'doing' AND NOT abort_requested"
)
TOLD = text("""
    SELECT worker_runs.*, told.part, told.whole, told.body FROM worker_runs LEFT JOIN (
        SELECT run_id, part, true AS whole, body FROM worker_events WHERE run_id = :run_id AND part > :after
        UNION ALL
        SELECT run_id, part, false, body FROM worker_drafts WHERE run_id = :run_id AND part > :after
    ) AS told ON told.run_id = worker_runs.run_id
    WHERE worker_runs.run_id = :run_id ORDER BY told.part, told.whole
""")
# In a separate transaction, of which nothing is logged or written to disk. A worker that was declared dead writes no
# draft once another worker has the run.
DRAFT = f"""
    WITH draft AS (
        INSERT INTO worker_drafts (run_id, part, body)
        SELECT run_id, %(part)s, %(body)s FROM worker_runs
        WHERE run_id = %(run_id)s AND worker = %(worker)s AND state = 'open'
        ON CONFLICT (run_id) DO UPDATE SET part = excluded.part, body = excluded.body RETURNING run_id
    ) SELECT pg_notify('{CHANNEL}', run_id) FROM draft
"""
NOTIFY = text("SELECT pg_notify(:channel, :payload)")
NEW_JOB = text(
    "SELECT pg_notify('procrastinate_queue_v1#' || queue_name, json_build_object('type', 'job_inserted', 'job_id', "
    "id)::text) FROM procrastinate_jobs WHERE id = :job"
)
# FOR KEY SHARE permits the heartbeat's UPDATE and blocks the DELETE by a process that declares the worker dead.
CHECK_WORKER = "SELECT id FROM procrastinate_workers WHERE id = %s FOR KEY SHARE"
CHECK_JOB = (
    "SELECT job.id FROM procrastinate_workers AS worker JOIN procrastinate_jobs AS job ON job.worker_id = worker.id "
    "WHERE worker.id = %s AND job.id = %s FOR KEY SHARE"
)
"""The same for one job, which may be taken from a live worker (`take_away`)."""
# A worker that froze in a transaction on that job holds the row; this statement does not wait for it.
TAKE_JOB = text(
    "DELETE FROM procrastinate_jobs WHERE id IN ("
    "SELECT id FROM procrastinate_jobs WHERE id = :job AND status = 'doing' FOR UPDATE SKIP LOCKED)"
)
PRUNE = text("SELECT worker_id FROM procrastinate_prune_stalled_workers_v1(:seconds)")
LEFT_BEHIND = text(
    "SELECT id, abort_requested, args->>'run_id' AS run_id FROM procrastinate_jobs "
    "WHERE status = 'doing' AND worker_id IS NULL AND queue_name = ANY(:queues) FOR UPDATE SKIP LOCKED"
)


def check_worker(tx: Connection, worker: int | None) -> None:
    """Raise Fenced if the worker was declared dead. The first statement of each of its batches. worker: None before it
    is registered; then nothing may be written yet (StoreUnavailable)."""
    if worker is None:
        raise StoreUnavailable("the worker is not registered yet")
    if tx.exec_driver_sql(CHECK_WORKER, (worker,)).first() is None:
        raise Fenced


# The gateway's side.


def order(tx: Connection, run_id: str, thread_id: str, *, attempt: int, since: int) -> Order:
    """Order the work on a run. Discards an earlier order of it and the events reported for that."""
    if load(tx, run_id) is not None:
        discard(tx, (run_id,))
    return _open(tx, run_id, thread_id, attempt, since, {"queue": QUEUE, "task": TASK, "lock": thread_id})


def call(tx: Connection, call_id: str, thread_id: str, asked: str) -> None:
    """Order a call. thread_id: where nothing else may run during the call; "" if it touches no thread. Does nothing if
    the call is already ordered."""
    if load(tx, call_id) is None:
        _open(tx, call_id, thread_id, 1, 0, {"queue": CALL_QUEUE, "task": CALL_TASK, "lock": thread_id or call_id})
        tx.execute(worker_events.insert(), {"run_id": call_id, "part": ASKED, "body": asked})


def _open(tx: Connection, run_id: str, thread_id: str, attempt: int, since: int, deferred: Mapping[str, str]) -> Order:
    """Write an order and its job. deferred: the job's queue, task and lock."""
    args = json.dumps({"run_id": run_id})
    job = int(tx.execute(DEFER, {**deferred, "once": run_id, "args": args}).scalar_one())
    made = Order(
        run_id=run_id,
        thread_id=thread_id,
        job=job,
        attempt=attempt,
        since=since,
        state=OrderState.OPEN,
        worker=None,
        deaths=0,
        asked=0,
        heard=0,
    )
    values = {name: getattr(made, name) for name in Order.__slots__}
    tx.execute(worker_runs.insert(), values)
    return made


def load(tx: Connection, run_id: str) -> Order | None:
    """The newest order of a run."""
    row = tx.execute(select(worker_runs).where(worker_runs.c.run_id == run_id)).first()
    return None if row is None else _order(row)


def told(tx: Connection, run_id: str, after: int) -> tuple[Order | None, list[Part]]:
    """Return the order, and the parts that its run reported after that part, oldest first."""
    rows = tx.execute(TOLD, {"run_id": run_id, "after": after}).all()
    parts = [Part(row.part, row.whole, row.body) for row in rows if row.part is not None]
    return (_order(rows[0]) if rows else None), parts


def called(tx: Connection, call_id: str) -> tuple[Order | None, bool, str | None]:
    """Return a call's order, whether a worker has it, and the answer."""
    known = load(tx, call_id)
    at_it = known is not None and tx.execute(JOB_LEFT, {"job": known.job}).first() is not None
    return known, at_it, _part(tx, call_id, ANSWERED)


def ordered(tx: Connection) -> set[str]:
    """The runs that are ordered and have not ended: workers execute them, so that they kill no gateway."""
    query = select(worker_runs.c.run_id).join(runs, runs.c.run_id == worker_runs.c.run_id)
    return set(tx.scalars(query.where(runs.c.state.in_(OPEN_STATES))))


def calls(tx: Connection) -> list[str]:
    """All calls that are not discarded."""
    return list(tx.scalars(select(worker_runs.c.run_id).where(worker_runs.c.run_id.startswith(CALL))))


def stop(tx: Connection, run_id: str) -> bool:
    """Cancel an order. False: a worker has it and has been notified; the order stays open until the worker lets go."""
    known = load(tx, run_id)
    if known is None or known.state is not OrderState.OPEN:
        return True
    tx.execute(CANCEL, {"job": known.job})
    if tx.execute(JOB_LEFT, {"job": known.job}).first() is not None:
        return False
    _end(tx, known, OrderState.STOPPED)
    return True


def take_away(tx: Connection, run_id: str) -> bool:
    """End an order that a worker did not stop as requested: from now on, all its writes to it are rejected
    (`CHECK_JOB`). False: the worker is writing right now, or has put the job back."""
    known = load(tx, run_id)
    if known is not None and known.state is OrderState.OPEN:
        if tx.execute(TAKE_JOB, {"job": known.job}).rowcount == 0:
            return False
        _end(tx, known, OrderState.STOPPED)
    return True


def at_work(tx: Connection, thread_id: str) -> list[str]:
    """The runs of a thread whose orders are open."""
    mine = (worker_runs.c.thread_id == thread_id) & (worker_runs.c.state == OrderState.OPEN)
    return list(tx.scalars(select(worker_runs.c.run_id).where(mine)))


def unwanted(tx: Connection) -> tuple[list[str], list[str]]:
    """Return runs (not calls) that have ended or are gone: those whose order is still open, and the others that have
    left anything."""
    query = (
        select(worker_runs.c.run_id, worker_runs.c.state)
        .join(runs, runs.c.run_id == worker_runs.c.run_id, isouter=True)
        .where(runs.c.run_id.is_(None) | runs.c.state.not_in(OPEN_STATES))
        .where(~worker_runs.c.run_id.startswith(CALL))
    )
    found = [(row.run_id, OrderState(row.state)) for row in tx.execute(query)]
    still = [run_id for run_id, state in found if state is OrderState.OPEN]
    ordered = select(worker_runs.c.run_id).where(worker_runs.c.run_id == worker_drafts.c.run_id).exists()
    late = tx.scalars(select(worker_drafts.c.run_id).where(~ordered))  # from a worker that froze while writing
    return still, [*(run_id for run_id, state in found if state is not OrderState.OPEN), *late]


def discard(tx: Connection, run_ids: Sequence[str]) -> None:
    """Delete orders, and what was reported for them."""
    for table in (worker_drafts, worker_events, worker_runs):
        tx.execute(delete(table).where(table.c.run_id.in_(run_ids)))


def discard_all(tx: Connection) -> None:
    """Delete everything: there will be no workers any more. A worker that still runs is ended, as another process takes
    over its runs; these are suspended, so that no death of a process counts against them before their next start."""
    end_all(tx)
    theirs = runs.c.run_id.in_(select(worker_runs.c.run_id)) & (runs.c.state == RunState.RUNNING)
    tx.execute(update(runs).where(theirs).values(state=RunState.PENDING, suspended=True))
    for table in (worker_drafts, worker_events, worker_runs):
        tx.execute(delete(table))


def end_all(tx: Connection) -> None:
    """End all workers that still run, and all jobs."""
    if tx.dialect.name == "postgresql" and tx.scalar(HAD_WORKERS) is not None:
        tx.execute(END_WORKERS)
        tx.execute(END_JOBS, {"queues": list(QUEUES)})


def discard_thread(tx: Connection, thread_id: str) -> None:
    """`discard` all orders of a thread."""
    discard(tx, list(tx.scalars(select(worker_runs.c.run_id).where(worker_runs.c.thread_id == thread_id))))


def answer(tx: Connection, run_id: str, asked: int) -> None:
    """Tell the worker that messages sent since the run began are in the run's row."""
    tx.execute(update(worker_runs).where(worker_runs.c.run_id == run_id).values(heard=asked))


# The worker's side.


def take(tx: Connection, run_id: str, job: int, worker: int) -> Order | None:
    """Claim an order for the worker, unless fetching the job already did; None if it is no longer wanted, or has
    another job."""
    known = load(tx, run_id)
    if known is None or known.job != job or known.state is not OrderState.OPEN:
        tx.execute(END_JOB, {"job": job})
        return None
    if known.worker == worker:
        return known
    taken = replace(known, worker=worker, deaths=known.deaths + (known.worker is not None))
    changes = {"worker": taken.worker, "deaths": taken.deaths}
    tx.execute(update(worker_runs).where(worker_runs.c.run_id == run_id).values(changes))
    return taken


def append(tx: Connection, run_id: str, part: int, body: str, *, further: bool) -> None:
    """Report events. further: the run has progressed so far that earlier deaths no longer count against it."""
    tx.execute(insert_new(tx.dialect.name, worker_events), {"run_id": run_id, "part": part, "body": body})
    if further:
        tx.execute(update(worker_runs).where(worker_runs.c.run_id == run_id).values(deaths=0))
    notify(tx, run_id)


def asked(tx: Connection, call_id: str) -> str:
    """The request of a call."""
    return _part(tx, call_id, ASKED) or ""


def answer_call(tx: Connection, run_id: str, job: int, body: str) -> None:
    """End a call with its answer, which is dropped if the call is no longer wanted."""
    known = load(tx, run_id)
    if known is not None and known.job == job and known.state is OrderState.OPEN:
        tx.execute(insert_new(tx.dialect.name, worker_events), {"run_id": run_id, "part": ANSWERED, "body": body})
    end(tx, run_id, job, OrderState.DONE)


def end(tx: Connection, run_id: str, job: int, state: OrderState) -> None:
    """End an order together with its job, so that the next job of the thread begins at once."""
    known = load(tx, run_id)
    if known is None or known.job != job:
        tx.execute(END_JOB, {"job": job})  # its order is gone: the job alone would block the thread's next jobs
    else:
        _end(tx, known, state)


def put_back(tx: Connection, run_id: str, job: int, worker: int | None) -> None:
    """Let another worker continue; this does not count as a death. Ends the order if it is to be stopped anyway. Does
    nothing if this worker already put it back: by now another worker may have it."""
    known = load(tx, run_id)
    if known is None or known.job != job or known.state is not OrderState.OPEN:
        tx.execute(END_JOB, {"job": job})
        return
    if known.worker != worker:
        return
    if tx.execute(PUT_BACK, {"job": job}).rowcount == 0:
        return _end(tx, known, OrderState.STOPPED)
    tx.execute(update(worker_runs).where(worker_runs.c.run_id == run_id).values(worker=None))
    tx.execute(NEW_JOB, {"job": job})


def ask(tx: Connection, run_id: str) -> int:
    """Ask the gateway for messages sent during the run; return the number of the question."""
    mine = update(worker_runs).where(worker_runs.c.run_id == run_id).values(asked=worker_runs.c.asked + 1)
    number = int(tx.execute(mine.returning(worker_runs.c.asked)).scalar_one())
    notify(tx, run_id)
    return number


def somebody_waits(tx: Connection, conversation: str) -> bool:
    """Whether a message there waits for its turn, and may be meant for the active run."""
    query = select(runs.c.run_id).where(runs.c.conversation == conversation, runs.c.state == RunState.PENDING)
    return tx.execute(query.limit(1)).first() is not None


def notify(tx: Connection, payload: str) -> None:
    """Wake the gateway once this is committed."""
    tx.execute(NOTIFY, {"channel": CHANNEL, "payload": payload})


# Both sides.


def recover(tx: Connection) -> int:
    """Declare workers without a heartbeat dead and hand their jobs to others; return how many jobs."""
    tx.exec_driver_sql(END_FROZEN)  # its lock on its registration would block the next statement
    tx.execute(PRUNE, {"seconds": STALLED_SECONDS})
    left = tx.execute(LEFT_BEHIND, {"queues": list(QUEUES)}).all()
    for row in left:
        known = load(tx, row.run_id)
        if row.abort_requested or known is None or known.job != row.id:
            tx.execute(END_JOB, {"job": row.id})
            if known is not None and known.job == row.id:
                _end(tx, known, OrderState.STOPPED)
            continue
        tx.execute(PUT_BACK, {"job": row.id})
        tx.execute(NEW_JOB, {"job": row.id})
    return len(left)


def _part(tx: Connection, run_id: str, part: int) -> str | None:
    mine = (worker_events.c.run_id == run_id) & (worker_events.c.part == part)
    return tx.scalar(select(worker_events.c.body).where(mine))


def _end(tx: Connection, known: Order, state: OrderState) -> None:
    mine = (worker_runs.c.run_id == known.run_id) & (worker_runs.c.state == OrderState.OPEN)
    tx.execute(update(worker_runs).where(mine).values(state=state))
    tx.execute(END_JOB, {"job": known.job})
    notify(tx, known.run_id)


def _order(row: Row[*tuple[object, ...]]) -> Order:
    values = {name: getattr(row, name) for name in Order.__slots__}
    return Order(**{**values, "state": OrderState(row.state)})
