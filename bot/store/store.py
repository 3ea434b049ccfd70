"""The database as the rest of bot/ sees it: units of work go in, committed results come out."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from sqlalchemy.exc import DBAPIError

from bot.store import schema, sql, writer
from bot.store.errors import Fenced, StoreClosed, StoreUnavailable, unavailable
from bot.store.writer import UNIT, WriteQueue, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import Connection
    from sqlalchemy.engine import URL

    from bot.store.sql import Bulk
    from channels.base import Clock

log = logging.getLogger(__name__)

T = TypeVar("T")
Row = TypeVar("Row")
Result = TypeVar("Result")


class Store:
    """One process's hold on the database. Made by `open`, for a worker by `join`; every method belongs to the event
    loop that opened it."""

    def __init__(
        self,
        url: URL,
        epoch: int,
        thread: ThreadPoolExecutor,
        clock: Clock,
        leased_at: float,
        check: Callable[[Connection], None] | None = None,
    ) -> None:
        self.epoch = epoch
        self.clock = clock
        self._url = url
        self._thread = thread
        self._writer_engine = sql.writer_engine(url)
        self._writer = Writer(self._writer_engine, check or partial(writer.check_epoch, epoch=epoch))
        self._queue = WriteQueue(self._writer, thread, clock)
        self._reader_engine = sql.reader_engine(url)
        self._readers = ThreadPoolExecutor(sql.READERS, thread_name_prefix="store-reader")
        self._closed = False
        self._under_way = 0
        self._lease_until = leased_at + writer.LEASE_SECONDS
        self._lease: asyncio.Task[None] | None = None
        self._leads = check is None
        if self._leads and url.get_backend_name() == "postgresql":
            self._lease = asyncio.create_task(self._keep_lease(), name="store-lease")

    @classmethod
    async def open(cls, url: str, *, clock: Clock) -> Store:
        """Migrate the database and become its writing process.

        url: "sqlite:////absolute/path/antler.db" or "postgresql://...". Raises StoreUnavailable, StoreNewer,
        StoreTooOld, and StoreBusy while another process holds PostgreSQL's lease.
        """
        parsed = sql.parse(url)
        thread = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        asked = clock.monotonic()
        try:
            epoch = await asyncio.get_running_loop().run_in_executor(thread, _take, parsed)
        except BaseException:  # a stop in mid-start among them: the thread would outlive it
            thread.shutdown(wait=False)
            raise
        return cls(parsed, epoch, thread, clock, asked)

    @classmethod
    async def join(cls, url: str, *, clock: Clock, check: Callable[[Connection], None]) -> Store:
        """Write beside the process that leads, into a database of this program's revision.

        check: the first statement of every batch; raises Fenced when this process may not write any more. Raises
        StoreUnavailable, also while the database is not prepared, StoreNewer, StoreTooOld.
        """
        parsed = sql.parse(url)
        await asyncio.to_thread(_look, parsed)
        thread = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        return cls(parsed, 0, thread, clock, clock.monotonic(), check)

    async def write(self, unit: Callable[[Connection], T]) -> T:
        """Run `unit` in the writing thread as one atomic unit; returns its result once that is committed.

        Units are committed in the order of the calls, many in one transaction, and may be run again after a rollback:
        a unit does nothing but SQL. It must let database errors pass. What it raises comes back here, and nothing of
        it is kept; StoreUnavailable and Fenced besides. Cancelling the caller does not stop the unit.
        """
        results = await self.add(cast("Bulk[Callable[[Connection], T], T]", UNIT), (unit,))
        return results[0]

    async def add(self, bulk: Bulk[Row, Result], rows: Sequence[Row]) -> list[Result]:
        """Write rows of one kind, together with those of other callers; one result per row. As atomic as `write`."""
        with self._counted():
            return await self._queue.submit(bulk, rows)

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run `query` on one consistent moment of the database, in a thread other than the writer's; it cannot write.

        Sees everything whose `write` or `add` has returned. Raises StoreUnavailable.
        """
        if self._closed:
            raise StoreClosed
        with self._counted():
            return await asyncio.get_running_loop().run_in_executor(self._readers, self._query, query)

    async def scrub(self) -> bool:
        """Leave nothing of what was deleted in SQLite's files; False when somebody was reading: then it is to be asked
        again. PostgreSQL does it by itself, in its own time (VACUUM). Raises StoreUnavailable."""
        if self._closed:
            raise StoreClosed
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._writer.scrub)

    @property
    def busy(self) -> bool:
        """Whether anybody waits for the database right now."""
        return self._under_way > 0

    @property
    def writer_age(self) -> float:
        """Seconds for which the writer has been at work on one batch; 0 while it has nothing to do."""
        return self._queue.age

    @property
    def trouble(self) -> str:
        """Why the newest write was not taken (see StoreUnavailable), "" once one was."""
        return self._queue.trouble

    @property
    def fenced(self) -> bool:
        """Another process took over: nothing of this one will ever be written again."""
        return self._writer.fenced

    def lease_valid(self) -> bool:
        """Whether this process may act outside (send, run tools): nobody else can have taken over by now."""
        if self._writer.fenced:
            return False
        return self._lease is None or self.clock.monotonic() < self._lease_until

    async def close(self) -> None:
        """Write what waits, give the lease back, close the connections. Idempotent; never raises StoreError."""
        if self._closed:
            return
        self._closed = True
        if self._lease is not None:
            self._lease.cancel()
            await asyncio.gather(self._lease, return_exceptions=True)
        if self._leads:
            try:
                await self._queue.submit(UNIT, (writer.release_lease,))
            except (StoreUnavailable, Fenced) as error:
                log.warning("the store was not released: %s", error)
        await self._queue.close()
        await asyncio.get_running_loop().run_in_executor(None, self._shut_down)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    def _query(self, query: Callable[[Connection], T]) -> T:
        try:
            with self._reader_engine.connect() as tx, tx.begin():
                return query(tx)
        except DBAPIError as error:
            typed = unavailable(error, self._url)
            if typed is None:
                raise
            raise typed from error

    def _shut_down(self) -> None:
        self._readers.shutdown()
        self._reader_engine.dispose()
        self._thread.submit(self._writer.close).result()
        self._thread.shutdown()
        self._writer_engine.dispose()

    async def _keep_lease(self) -> None:
        while True:
            await self.clock.sleep(writer.RENEW_SECONDS)
            asked = self.clock.monotonic()
            try:
                await self.write(writer.renew_lease)
            except StoreUnavailable as error:
                log.warning("the lease was not renewed: %s", error)
            except Fenced as error:
                log.error("%s", error)
                return
            else:
                self._lease_until = asked + writer.LEASE_SECONDS


def _look(url: URL) -> None:
    """Be sure that the database is as this program left it."""
    engine = sql.reader_engine(url)
    try:
        with engine.connect() as tx:
            revision = schema.known_revision(tx)
    except DBAPIError as error:
        typed = unavailable(error, url)
        if typed is None:
            raise
        raise typed from error
    finally:
        engine.dispose()
    if revision != schema.STEPS.revisions[-1]:
        raise StoreUnavailable("the database is not prepared yet: a gateway of this version does that at its start")


def _take(url: URL) -> int:
    """Prepare the schema and take the epoch, in one transaction."""
    if url.get_backend_name() == "sqlite":
        sql.prepare_file(url)
    engine = sql.writer_engine(url, foreign_keys=False)
    try:
        with engine.connect() as tx, tx.begin():
            schema.prepare(tx)
            return writer.take_over(tx, writer.process_name())
    except DBAPIError as error:
        typed = unavailable(error, url)
        if typed is None:
            raise
        raise typed from error
    finally:
        engine.dispose()
