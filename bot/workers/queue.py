"""Antler's use of procrastinate: its tables, and the worker that takes jobs. Imported only if runs are executed by
workers; the package is part of the extra `scale`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from typing import TYPE_CHECKING, Any, Protocol

import psycopg
from anyio import CapacityLimiter
from procrastinate import App, PsycopgConnector, exceptions, manager, worker
from procrastinate.jobs import Job
from procrastinate.schema import SchemaManager

from bot.store import workers
from bot.store.errors import Fenced, StoreUnavailable, TakenAway
from bot.store.sql import SESSION_LIMITS
from bot.store.worker_runs import (
    CALL_QUEUE,
    CALL_TASK,
    CHECK_JOB,
    CHECK_WORKER,
    DRAFT,
    QUEUE,
    QUEUES,
    STALLED_SECONDS,
    TASK,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import LiteralString

    from procrastinate.job_context import JobContext
    from procrastinate.jobs import Status
    from sqlalchemy import Connection

    from channels.base import Clock

log = logging.getLogger(__name__)

PREPARE_LOCK = 7_043_105_116
"""A lock with which concurrently starting gateways create procrastinate's tables one after the other."""
HEARTBEAT_SECONDS = STALLED_SECONDS / 3
CERTAIN_SECONDS = STALLED_SECONDS * 5 / 6
"""Seconds after a heartbeat for which the worker is not declared dead; the rest is for actions begun until then."""
LOOK_SECONDS = 5.0
AGAIN_SECONDS = 1.0
CONNECTIONS = 2
RECONNECT_SECONDS = 5.0
"""How long the pool tries to reconnect by itself, and how long a caller waits for it: its pauses double, and after an
outage of minutes a worker would be declared dead during one. After it gave up, the next caller makes it try at once."""
# A job that is to be stopped is not begun: the gateway, which checks again, ends its order.
PUT_BACK_LOST = """
WITH lost AS (
    SELECT id, abort_requested, args->>'run_id' AS run_id FROM procrastinate_jobs
    WHERE status = 'doing' AND worker_id = %(worker_id)s AND id <> ALL(CAST(%(working)s AS bigint[]))
), untaken AS (
    UPDATE worker_runs SET worker = NULL FROM lost WHERE worker_runs.run_id = lost.run_id AND worker_runs.job = lost.id
), unwanted AS (DELETE FROM procrastinate_jobs AS job USING lost WHERE job.id = lost.id AND lost.abort_requested)
UPDATE procrastinate_jobs AS job SET status = 'todo', worker_id = NULL, attempts = job.attempts + 1
FROM lost WHERE job.id = lost.id AND NOT lost.abort_requested
"""


# Like procrastinate's own fetch, but takes the order in the same transaction. If the order was committed after this
# statement began, the worker takes it separately.
FETCH = """
WITH job AS MATERIALIZED (
    SELECT * FROM procrastinate_fetch_job_v2(CAST(%(queues)s AS varchar[]), %(worker_id)s)
), taken AS (
    UPDATE worker_runs SET worker = %(worker_id)s,
        deaths = deaths + CAST(worker IS NOT NULL AND worker <> %(worker_id)s AS integer)
    FROM job WHERE worker_runs.job = job.id AND worker_runs.run_id = job.args->>'run_id' AND worker_runs.state = 'open'
)
SELECT id, status, task_name, priority, lock, queueing_lock, args, scheduled_at, queue_name, attempts, worker_id
FROM job
"""


TO_ABORT = """
SELECT working.id FROM unnest(CAST(%(working)s AS bigint[])) AS working(id)
LEFT JOIN procrastinate_jobs AS job ON job.id = working.id AND job.worker_id = %(worker_id)s
WHERE job.id IS NULL OR job.abort_requested
"""


async def _configured(connection: psycopg.AsyncConnection[Any]) -> None:
    """Configure a connection. Each statement is a transaction, so that a frozen process blocks no other process."""
    await connection.set_autocommit(True)
    await connection.execute(SESSION_LIMITS)


async def prepare(url: str) -> None:
    """Create procrastinate's tables if missing. url: in libpq's form. Raises psycopg.Error."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (PREPARE_LOCK,))
        found = await connection.execute("SELECT to_regclass('procrastinate_jobs')")
        if (await found.fetchone()) == (None,):
            await connection.execute(SchemaManager.get_schema())


class Life(Protocol):
    """What a worker reports with its heartbeats, and what it learns from them."""

    def sign(self) -> dict[str, str]:
        """Return the parameters of workers.SIGN, except the worker's id."""

    def heard(self, asked: int, revision: str) -> None:
        """Receive how often the worker was asked to reload its config, and the database's revision, as of now."""


class Slots:
    """The number of concurrent jobs. It may change at any time; a decrease takes effect as slots are released."""

    def __init__(self, number: int) -> None:
        self._limiter = CapacityLimiter(number)
        self._taken: list[object] = []

    @property
    def number(self) -> int:
        return int(self._limiter.total_tokens)

    @number.setter
    def number(self, number: int) -> None:
        self._limiter.total_tokens = number

    async def acquire(self) -> None:
        slot = object()
        await self._limiter.acquire_on_behalf_of(slot)
        self._taken.append(slot)

    def release(self) -> None:
        if self._taken:  # a stopping worker also releases the slot that it was still waiting for
            self._limiter.release_on_behalf_of(self._taken.pop())


class Word(asyncio.Event):
    """An event for new jobs. procrastinate clears it after each fetch; it stays set if it was set after the fetch
    began, which may have missed that job."""

    _fresh = False

    def look(self) -> None:
        """Note that a fetch begins."""
        self._fresh = False

    def set(self) -> None:
        self._fresh = True
        super().set()

    def clear(self) -> None:
        if not self._fresh:
            super().clear()


class SlotWorker(worker.Worker):
    """procrastinate's worker, with a variable number of slots. slots: replaces the semaphore that it creates at each
    start."""

    slots: Slots

    @property
    def _job_semaphore(self) -> Any:
        return self.slots

    @_job_semaphore.setter
    def _job_semaphore(self, fresh: asyncio.Semaphore) -> None:
        pass


class OutlivingJobs(manager.JobManager):
    """procrastinate's job manager, for a worker that survives outages of the server.

    The end of a job is written together with the run's last events (bot/store/worker_runs.py), and stalled workers are
    removed where it is known whether the server was reachable at all (DeadWorkers): both happen only there.

    working: returns the ids of the jobs that the worker executes. word: set when there are jobs. life: the worker's;
    set before it is registered.
    """

    def __init__(self, connector: PsycopgConnector, working: Callable[[], list[int]], word: Word, clock: Clock) -> None:
        super().__init__(connector)
        self._working = working
        self._word = word
        self._clock = clock
        self._worker: int | None = None
        self._certain_until = -math.inf
        self._replaced = False
        self._asking = asyncio.Lock()
        self.life: Life

    async def stands(self) -> bool:
        """Whether this worker cannot be declared dead within the next seconds. If that is not certain, e.g. after it
        was frozen, sends a heartbeat at once. Raises Fenced if it was declared dead."""
        async with self._asking:
            if not self._is_certain and self._worker is not None:
                await self.update_heartbeat(self._worker)
        if self._replaced:
            raise Fenced
        return self._is_certain

    @property
    def _is_certain(self) -> bool:
        return self._clock.monotonic() < self._certain_until

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        """Do nothing: the job has ended, or was put back, together with its run."""

    async def list_jobs_to_abort_async(self, queue: str | None = None) -> Iterable[int]:
        """The jobs to abort, including those that were taken from this worker."""
        which = {"working": self._working(), "worker_id": self._worker}
        try:
            rows = await self.connector.execute_query_all_async(TO_ABORT, **which)
        except exceptions.ConnectorException as error:
            log.warning("jobs to stop cannot be read now: %s", _first_line(error))
            return []
        return [row["id"] for row in rows]

    async def prune_stalled_workers(self, seconds_since_heartbeat: float) -> list[int]:
        return []

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """Fetch a job. First puts back jobs that were assigned to this worker in a response that a broken connection
        lost: no other process does that while it lives, and their threads would have to wait."""
        self._word.look()
        try:
            lost = {"worker_id": worker_id, "working": self._working()}
            await self.connector.execute_query_async(PUT_BACK_LOST, **lost)
            row = await self.connector.execute_query_one_async(FETCH, queues=queues, worker_id=worker_id)
        except exceptions.ConnectorException as error:
            log.warning("jobs cannot be fetched now: %s", _first_line(error))
            return None
        return None if row["id"] is None else Job.from_row(row)

    async def register_worker(self) -> int:
        self._worker = await super().register_worker()
        await self.update_heartbeat(self._worker)
        return self._worker

    async def update_heartbeat(self, worker_id: int) -> None:
        sent = self._clock.monotonic()  # the server counts from its arrival
        try:
            sign = {"worker_id": worker_id, **self.life.sign()}
            rows = await self.connector.execute_query_all_async(workers.SIGN, **sign)
        except exceptions.ConnectorException as error:
            log.warning("heartbeat not sent: %s", _first_line(error))
            return
        self._replaced = not rows
        if rows:
            self._certain_until = max(self._certain_until, sent + CERTAIN_SECONDS)
            self.life.heard(rows[0]["asked"], rows[0]["revision"])

    async def unregister_worker(self, worker_id: int) -> None:
        self._worker = None
        try:
            await self.connector.execute_query_async(workers.LEAVE, worker_id=worker_id)
        except exceptions.ConnectorException as error:
            log.warning("this worker could not be unregistered: %s", _first_line(error))

    async def listen_for_jobs(self, *, on_notification: Any, queues: Iterable[str] | None = None) -> None:
        """Listen for new jobs and, on the same connection, for the gateway's requests, which a heartbeat reads."""

        async def hear(channel: str, payload: str) -> None:
            if channel != workers.CHANNEL:
                await on_notification(channel=channel, notification=json.loads(payload))
            elif self._worker is not None:
                await self.update_heartbeat(self._worker)

        channels = [*manager.get_channel_for_queues(queues), workers.CHANNEL]
        while True:
            try:
                await self.connector.listen_notify(hear, channels)
            except exceptions.ConnectorException as error:
                log.warning("notifications of new jobs are interrupted: %s", _first_line(error))
            await asyncio.sleep(AGAIN_SECONDS)


class Queue:
    """The jobs, and the worker that takes them. url: in libpq's form. concurrent: the number of concurrent jobs."""

    def __init__(self, url: str, concurrent: int, clock: Clock) -> None:
        self._connector = PsycopgConnector(
            conninfo=url,
            min_size=1,
            max_size=CONNECTIONS,
            timeout=RECONNECT_SECONDS,
            reconnect_timeout=RECONNECT_SECONDS,
            configure=_configured,
        )
        self._app = App(connector=self._connector)
        word = Word()
        self._app.job_manager = self._jobs = OutlivingJobs(self._connector, self._working, word, clock)
        self._worker: Any = SlotWorker(
            self._app,
            queues=list(QUEUES),
            concurrency=concurrent,
            fetch_job_polling_interval=LOOK_SECONDS,
            abort_job_polling_interval=LOOK_SECONDS,
            install_signal_handlers=False,
            update_heartbeat_interval=HEARTBEAT_SECONDS,
            stalled_worker_timeout=STALLED_SECONDS,
        )
        self._worker._new_job_event = word
        self.slots = self._worker.slots = Slots(concurrent)
        self._stopped = False

    def registration(self) -> int | None:
        """The worker's id in procrastinate's tables; None before it is registered and after it has stopped."""
        number: int | None = self._worker.worker_id
        return number

    async def stands(self) -> bool:
        return await self._jobs.stands()

    def fence(self, thread_id: str) -> tuple[LiteralString, tuple[Any, ...]]:
        """harness.ports.Fence: checks the worker's job in that thread or, without one, its registration."""
        job = self._job_of(thread_id)
        return (CHECK_WORKER, (self.registration(),)) if job is None else (CHECK_JOB, (self.registration(), job))

    def check_run(self, tx: Connection, run_id: str) -> None:
        """Raise TakenAway if the gateway has taken a run or a call from this worker."""
        job = self._job_of(run_id)
        if job is not None and tx.exec_driver_sql(CHECK_JOB, (self.registration(), job)).first() is None:
            raise TakenAway

    def _job_of(self, name: str) -> int | None:
        """The worker's current job of a run, a call or a thread. Of two jobs of a thread, the one that must end
        first."""
        # Copied first: this is also called in the writer's thread while jobs begin and end.
        at = [context.job for context in list(self._worker._running_jobs.values())]
        return min((job.id for job in at if name and name in (job.lock, job.task_kwargs["run_id"])), default=None)

    def _working(self) -> list[int]:
        return [context.job.id for context in self._worker._running_jobs.values()]

    async def draft(self, run_id: str, part: int, body: str) -> None:
        """Write the draft of a run's part (bot/store/worker_runs.py). Tried once: the next draft contains it too."""
        draft = {"run_id": run_id, "part": part, "body": body, "worker": self.registration()}
        try:
            async with asyncio.timeout(RECONNECT_SECONDS):
                await self._connector.execute_query_async(DRAFT, **draft)
        except (exceptions.ConnectorException, TimeoutError) as error:
            log.debug("a draft of run %s was not written: %s", run_id, error)

    async def work(self, do: Callable[[str, int, bool], Awaitable[None]], life: Life) -> None:
        """Take jobs until `stop`, then wait for those being executed. do: is given the id of a run or a call, the id of
        the job, and whether the job is taken for the first time.
        Raises StoreUnavailable if the server is unavailable at the start, or refuses what is needed."""
        self._jobs.life = life

        async def run(context: JobContext, run_id: str) -> None:
            # A job that was taken from this worker frees its thread before its work has ended here.
            while before := self._earlier(context.job):
                await asyncio.wait(before)
            await do(run_id, context.job.id or 0, context.job.attempts == 0)

        for name, queue in ((TASK, QUEUE), (CALL_TASK, CALL_QUEUE)):
            self._app.task(name=name, queue=queue, pass_context=True)(run)

        try:
            async with self._app.open_async():
                if not self._stopped:  # its start would forget an earlier stop
                    await self._worker.run()
        except (psycopg.Error, exceptions.ConnectorException) as error:
            raise StoreUnavailable(_first_line(error)) from error

    def _earlier(self, job: Job) -> list[asyncio.Task[Any]]:
        """The tasks of earlier jobs of the job's thread."""
        at = self._worker._running_jobs.items()
        return [task for task, other in at if other.job.lock == job.lock and other.job.id < (job.id or 0)]

    def stop(self) -> None:
        self._stopped = True
        self._worker.stop()


def _first_line(error: Exception) -> str:
    return str(error.__cause__ or error).partition("\n")[0]
