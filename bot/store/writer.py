"""The only writing thread: one connection, one transaction for everything that was queued; and its queue.

One row records which process may write: its epoch and, on PostgreSQL, its lease.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sqlite3
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, OperationalError

from bot.store.errors import Fenced, StoreBusy, StoreClosed, StoreError, StoreUnavailable, unavailable
from bot.store.sql import Bulk, insert
from bot.store.tables import instance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from sqlalchemy import Connection, Engine, Row

    from channels.base import Clock


log = logging.getLogger(__name__)
UNIT: Bulk[Callable[[Connection], Any], Any] = Bulk("unit", lambda tx, units: [unit(tx) for unit in units])
"""Plain units of work as another bulk kind: they run one after the other."""

FILE_SIZE = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
VACUUMED_BYTES = 64_000_000
"""A file up to this size is rewritten in less than a second. For a larger one `secure_delete` must suffice: it zeroes
deleted data, except for rare remnants (about one in a thousand rows) in pages that were reorganized earlier."""

LEASE_SECONDS = 30
RENEW_SECONDS = 10
SERVER_NOW = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
"""PostgreSQL's clock in microseconds: the clocks of hosts differ, the one server's does not."""
LOCK_NOT_AVAILABLE = "55P03"
"""SQLSTATE of `NOWAIT` on a locked row (PostgreSQL, Appendix A)."""
HOLDER = f"SELECT owner, lease_until > {SERVER_NOW} AS leased FROM instance WHERE id = 1"
LEASE = f"{SERVER_NOW} + {LEASE_SECONDS * 1_000_000}"
# Literal SQL: it runs in every batch, and SQLAlchemy's overhead would be most of its cost.
CHECK_SQLITE = "SELECT epoch FROM instance WHERE id = 1"
# The lock delays a takeover until this batch is committed, so that nothing is written after one.
CHECK_POSTGRES = "SELECT epoch FROM instance WHERE id = 1 FOR SHARE"
CHECK_EPOCH = "SELECT epoch FROM instance WHERE id = 1 AND epoch = %s FOR SHARE"
"""For transactions on other connections of the process: returns a row while its epoch is the current one."""


LOCKS = "locks"


def process_name(*, locks: bool = False) -> str:
    """Return `host:pid namespace`: the first word is for people, the second shows who can see that pid (see `is_gone`).

    locks: add a third word, which marks a process that holds the lead's lock as well as the lease.
    """
    name = f"{socket.gethostname()}:{os.getpid()} {_pid_namespace()}"
    return f"{name} {LOCKS}" if locks else name


def short_name(owner: str) -> str:
    """The name of a process as people see it: `host:pid`."""
    return owner.partition(" ")[0]


def locks(owner: str) -> bool:
    """Whether that process leads by the lock; a process of an older version has only a lease."""
    return owner.endswith(f" {LOCKS}")


@cache
def _pid_namespace() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"


def is_gone(owner: str) -> bool:
    """Whether the holder has certainly ended: it ran in this process's pid namespace and is not visible there."""
    name, _, rest = owner.partition(" ")
    return rest.partition(" ")[0] == _pid_namespace() and not Path("/proc", name.rpartition(":")[2]).exists()


def refuse_while_leased(tx: Connection) -> None:
    """Raise StoreBusy when another process holds the lease, or is in the middle of a write. Locks the row until the
    transaction ends (PostgreSQL).

    A killed process of this machine holds nothing: its successor need not wait for the lease to expire.
    """
    holder = tx.execute(text(HOLDER)).first()
    try:
        if holder is not None and not _is_held(holder):
            holder = tx.execute(text(f"{HOLDER} FOR UPDATE NOWAIT")).first()
    except OperationalError as error:
        # Another process froze between its check and its commit; the server ends that transaction after a while.
        if getattr(error.orig, "sqlstate", None) == LOCK_NOT_AVAILABLE:
            raise StoreBusy(_holder_name(holder)) from error
        raise
    if holder is not None and _is_held(holder):
        raise StoreBusy(_holder_name(holder))


def _is_held(holder: Row[Any]) -> bool:
    return bool(holder.leased) and not is_gone(holder.owner)


def _holder_name(holder: Row[Any] | None) -> str:
    return "" if holder is None else short_name(str(holder.owner))


def take_over(tx: Connection, owner: str) -> int:
    """Become the writing process and return the new epoch. On SQLite, a file lock elsewhere excludes others."""
    tx.execute(insert(tx, instance).on_conflict_do_nothing(), {"id": 1, "epoch": 0, "owner": "", "lease_until": None})
    lease = "NULL" if tx.dialect.name == "sqlite" else LEASE
    query = f"UPDATE instance SET epoch = epoch + 1, owner = :owner, lease_until = {lease} WHERE id = 1 RETURNING epoch"
    return int(tx.execute(text(query), {"owner": owner}).scalar_one())


def check_epoch(tx: Connection, epoch: int) -> None:
    """Raise Fenced unless `epoch` is the current one."""
    statement = CHECK_SQLITE if tx.dialect.name == "sqlite" else CHECK_POSTGRES
    if tx.exec_driver_sql(statement).scalar() != epoch:
        raise Fenced


def renew_lease(tx: Connection) -> None:
    """Extend the lease (PostgreSQL)."""
    tx.execute(text(f"UPDATE instance SET lease_until = {LEASE} WHERE id = 1"))


def release_lease(tx: Connection) -> None:
    """Let the next process take over at once."""
    tx.execute(text("UPDATE instance SET owner = '', lease_until = NULL WHERE id = 1"))


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """The rows that one caller wants written, all or nothing."""

    bulk: Bulk[Any, Any]
    rows: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One result per row of the job, or the error that its caller gets."""

    results: list[Any]
    error: Exception | None = None


class Writer:
    """The batch runner. Every method is called in the writing thread.

    check: raises Fenced unless this process may still write; it is the first statement of every batch.
    """

    def __init__(self, engine: Engine, check: Callable[[Connection], None]) -> None:
        self._engine = engine
        self._check = check
        self._connection: Connection | None = None
        self.fenced = False

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Write all jobs in one transaction; if one fails, each in its own, so that only that one fails."""
        try:
            results = self._transact(jobs)
        except (Fenced, StoreUnavailable) as error:
            return [Outcome([], error) for _ in jobs]
        except Exception as error:  # errors of a unit are for its caller
            if len(jobs) == 1:
                return [Outcome([], error)]
            log.debug("a batch of %d units failed, running them one by one", len(jobs))
            return [outcome for job in jobs for outcome in self.run([job])]
        return [Outcome(rows) for rows in results]

    def scrub(self) -> bool:
        """SQLite: rewrite the file if it is small, and empty its log, so that neither contains deleted data. False when
        a reader prevented that. Other databases need nothing."""
        if self._engine.dialect.name != "sqlite" or self.fenced:
            return True
        try:
            if self._connection is None:
                self._connection = self._engine.connect()
            driver = self._connection.connection.driver_connection
            assert driver is not None
            ((size,),) = driver.execute(FILE_SIZE).fetchall()
            if size <= VACUUMED_BYTES:
                driver.execute("VACUUM")
            ((blocked, *_),) = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            raise StoreUnavailable(str(error)) from error
        return not blocked

    def close(self) -> None:
        """Close the connection; the next `run` opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # Not returned to the pool: its state ends here, including an open transaction.
            with suppress(DBAPIError):
                connection.invalidate()
            connection.close()

    def _transact(self, jobs: Sequence[Job]) -> list[list[Any]]:
        try:
            tx = self._begin()
            results = [rows for bulk, group in groupby(jobs, lambda job: job.bulk) for rows in _merge(tx, bulk, group)]
            tx.commit()
        except DBAPIError as error:
            self._undo()
            typed = unavailable(error, self._engine.url)
            if typed is None:
                raise
            self.close()
            raise typed from error
        except Fenced:
            self.fenced = True
            self._undo()
            raise
        except BaseException:  # whatever it is: nothing it wrote may be committed with the next batch
            self._undo()
            raise
        return results

    def _begin(self) -> Connection:
        """Begin, and verify that no process took over. A connection that broke while idle is replaced once."""
        if self.fenced:
            raise Fenced
        if self._connection is not None:
            try:
                self._check(self._connection)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                self.close()
            else:
                return self._connection
        self._connection = self._engine.connect()
        self._check(self._connection)
        return self._connection

    def _undo(self) -> None:
        if self._connection is None:
            return
        try:
            self._connection.rollback()
        except DBAPIError:
            self.close()


def _merge(tx: Connection, bulk: Bulk[Any, Any], jobs: Sequence[Job] | Any) -> list[list[Any]]:
    """Run adjacent jobs of one kind together, and split the results by job."""
    members: list[Job] = list(jobs)
    results = bulk.run(tx, [row for job in members for row in job.rows])
    dealt, start = [], 0
    for job in members:
        dealt.append(results[start : start + len(job.rows)])
        start += len(job.rows)
    if start != len(results):
        raise StoreError(f"{bulk.name} returned {len(results)} results for {start} rows")
    return dealt


# The event loop's side: collects jobs while a batch is being committed, and hands them over all at once.

MAX_WAITING = 20_000
"""Most jobs in the queue; further callers wait for room, so that intake slows down instead of memory growing."""
MAX_BATCH = 2_000
"""Most jobs of one transaction, so that no caller waits for an endless batch."""
Waiter = asyncio.Future[list[Any]]


class WriteQueue:
    """A first-in, first-out queue of jobs. trouble: why the newest batch could not be written, "" if it was."""

    def __init__(self, writer: Writer, thread: Executor, clock: Clock) -> None:
        self._clock = clock
        self._began: float | None = None
        self.trouble = ""
        self._writer = writer
        self._thread = thread
        self._waiting: deque[tuple[Job, Waiter]] = deque()
        self._room = asyncio.Semaphore(MAX_WAITING)
        self._wake = asyncio.Event()
        self._closed = False
        self._task = asyncio.create_task(self._serve(), name="store-writer")

    async def submit(self, bulk: Bulk[Any, Any], rows: Sequence[Any], within: float = 0.0) -> list[Any]:
        """Write `rows`; return when they are committed. Cancelling the caller does not stop the write.

        within: seconds that they may wait for the next job, to be committed with it.
        """
        async with self._room:
            if self._closed:
                raise StoreClosed
            waiter: Waiter = asyncio.get_running_loop().create_future()
            self._waiting.append((Job(bulk, rows), waiter))
            if within:
                asyncio.get_running_loop().call_later(within, self._wake.set)
            else:
                self._wake.set()
            return await waiter

    @property
    def age(self) -> float:
        """Seconds since the current batch began to be written, 0 if there is none."""
        return 0.0 if self._began is None else self._clock.monotonic() - self._began

    async def close(self) -> None:
        """Write what is queued and accept nothing more."""
        self._closed = True
        self._wake.set()
        await self._task

    async def _serve(self) -> None:
        batch: list[tuple[Job, Waiter]] = []
        try:
            while self._waiting or not self._closed:
                await self._wake.wait()
                self._wake.clear()
                while self._waiting:
                    batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_BATCH))]
                    _resolve(batch, await self._run([job for job, _ in batch]))
        finally:
            self._closed = True
            for _, waiter in (*batch, *self._waiting):  # only when this task was cancelled or broke
                if not waiter.done():
                    waiter.set_exception(StoreClosed())

    async def _run(self, jobs: list[Job]) -> list[Outcome]:
        self._began = self._clock.monotonic()
        try:
            outcomes = await asyncio.get_running_loop().run_in_executor(self._thread, self._writer.run, jobs)
        finally:
            self._began = None
        self.trouble = next((str(each.error) for each in outcomes if isinstance(each.error, StoreUnavailable)), "")
        return outcomes


def _resolve(batch: list[tuple[Job, Waiter]], outcomes: list[Outcome]) -> None:
    for (job, waiter), outcome in zip(batch, outcomes, strict=True):
        if waiter.done():  # its caller was cancelled
            if outcome.error is not None:
                log.warning("%s failed after its caller had gone", job.bulk.name, exc_info=outcome.error)
        elif outcome.error is not None:
            waiter.set_exception(outcome.error)
        else:
            waiter.set_result(outcome.results)
