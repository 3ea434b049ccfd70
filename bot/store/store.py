"""The database's interface for the rest of bot/: units of work in, committed results out."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from bot.store import schema, sql, writer
from bot.store.errors import Fenced, StoreClosed, StoreUnavailable, UnfitDatabase, unavailable
from bot.store.writer import UNIT, WriteQueue, Writer
from channels.supervision import until_first

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence

    from sqlalchemy import Connection
    from sqlalchemy.engine import URL

    from bot.store.leadership import Lead
    from bot.store.sql import Bulk
    from channels.base import Clock

log = logging.getLogger(__name__)

FENCE_SECONDS = 2.0
"""Seconds between two checks for a takeover by another process, unless it is noticed earlier."""
SHORTEST_LOOK = 0.05
ACT_AGAIN_SECONDS = 0.5
"""Seconds before a process that may not act externally checks again."""
AT_ONCE_SECONDS = 0.5
"""Seconds after a commit was sent within which the action it permits begins, or the permission is checked again."""
UNDO_SECONDS = 1.0
"""Seconds after the lead was last certain: half of what a successor waits (leadership.REACTION_SECONDS)."""

T = TypeVar("T")
Row = TypeVar("Row")
Result = TypeVar("Result")


class Store:
    """One process's access to the database. Created by `open`, for a worker by `join`; all methods must be called in
    the event loop that opened it."""

    def __init__(
        self,
        url: URL,
        epoch: int,
        thread: ThreadPoolExecutor,
        clock: Clock,
        leased_at: float,
        *,
        lead: Lead | None = None,
        check: Callable[[Connection], None] | None = None,
        stands: Callable[[], Awaitable[bool]] | None = None,
        check_run: Callable[[Connection, str], None] | None = None,
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
        self._leads = check is None
        self._stands = stands
        self._check_run = check_run
        self._led_at = leased_at
        """When this process last certainly had the lead."""
        self._lead = lead
        self._keeping: list[asyncio.Task[None]] = []
        if lead is not None:
            lead.taken()
            self._keeping.append(asyncio.create_task(self._keep_lease(), name="store-lease"))
            self._keeping.append(asyncio.create_task(self._keep_lead(), name="store-regain"))

    @classmethod
    async def open(cls, url: str, *, clock: Clock, lead: Lead | None = None) -> Store:
        """Migrate the database and become its writing process.

        url: "sqlite:////absolute/path/antler.db" or "postgresql://...". lead: on PostgreSQL, a lead that the store will
        close; without one, it is taken here. Raises StoreUnavailable, StoreNewer, StoreTooOld, UnfitDatabase, and
        StoreBusy while another process leads.
        """
        parsed = sql.parse(url)
        if lead is None and parsed.get_backend_name() == "postgresql":
            from bot.store.leadership import Lead  # imports psycopg, which SQLite does not need

            lead = await Lead.take(parsed)
        thread = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        asked = clock.monotonic()
        try:
            epoch = await asyncio.get_running_loop().run_in_executor(thread, _take, parsed)
        except BaseException:  # including a stop during the start: the thread would outlive it
            thread.shutdown(wait=False)
            if lead is not None:
                await lead.close()
            raise
        return cls(parsed, epoch, thread, clock, asked, lead=lead)

    @classmethod
    async def join(
        cls,
        url: str,
        *,
        clock: Clock,
        check: Callable[[Connection], None],
        stands: Callable[[], Awaitable[bool]] | None = None,
        check_run: Callable[[Connection, str], None] | None = None,
    ) -> Store:
        """Open the store for a process that writes alongside the leader, in a database of this program's revision or of
        a newer, compatible one (schema.known_revision).

        check: the first statement of every batch; raises Fenced when this process may no longer write. stands: whether
        no process takes over within the next seconds, for `may_act`; raises Fenced if one has. check_run: see the
        method. Raises StoreUnavailable, also while the database is not prepared, StoreNewer, StoreTooOld,
        UnfitDatabase.
        """
        parsed = sql.parse(url)
        await asyncio.to_thread(_look, parsed)
        thread = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        return cls(parsed, 0, thread, clock, clock.monotonic(), check=check, stands=stands, check_run=check_run)

    async def write(self, unit: Callable[[Connection], T], *, within: float = 0.0) -> T:
        """Run `unit` in the writing thread as one atomic unit; return its result once that is committed.

        within: seconds that it may wait for the next write of any caller, to be committed with it.

        Units are committed in the order of the calls, many in one transaction, and may run again after a rollback: a
        unit must do nothing but SQL, and must not catch database errors. Raises what the unit raises, and then nothing
        of it is kept; also StoreUnavailable and Fenced. Cancelling the caller does not stop the unit.
        """
        results = await self.add(cast("Bulk[Callable[[Connection], T], T]", UNIT), (unit,), within=within)
        return results[0]

    async def add(self, bulk: Bulk[Row, Result], rows: Sequence[Row], *, within: float = 0.0) -> list[Result]:
        """Write rows of one kind, together with those of other callers; one result per row. Atomic like `write`."""
        with self._counted():
            return await self._queue.submit(bulk, rows, within)

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run `query` on a consistent snapshot of the database, in a thread other than the writer's; it cannot write.

        It sees everything whose `write` or `add` has returned. Raises StoreUnavailable.
        """
        if self._closed:
            raise StoreClosed
        with self._counted():
            return await asyncio.get_running_loop().run_in_executor(self._readers, self._query, query)

    async def scrub(self) -> bool:
        """Purge deleted data from SQLite's files; False if a reader prevented it: then call again. PostgreSQL does this
        by itself (VACUUM). Raises StoreUnavailable."""
        if self._closed:
            raise StoreClosed
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._writer.scrub)

    @property
    def busy(self) -> bool:
        """Whether any caller is waiting for the database right now."""
        return self._under_way > 0

    @property
    def writer_age(self) -> float:
        """Seconds for which the writer has been working on its current batch; 0 while it is idle."""
        return self._queue.age

    @property
    def trouble(self) -> str:
        """Why the newest write was not accepted (see StoreUnavailable), "" if it was."""
        return self._queue.trouble

    @property
    def fenced(self) -> bool:
        """Whether another process took over: nothing from this one will ever be written again."""
        return self._writer.fenced

    def lease_valid(self) -> bool:
        """Whether this process may act externally (send, run tools): no other process can have taken over yet."""
        if self._writer.fenced:
            return False
        if self._lead is None:
            return True
        if not self._lead.held:
            return False
        now = self.clock.monotonic()
        self._led_at = min(now, self._lease_until)
        return now < self._lease_until

    async def may_act(self) -> None:
        """Wait until no other process can have taken over, right before models and tools are called: the preceding
        commit may be long past if this process was frozen or lost contact with the server. Raises Fenced."""
        while not (self.lease_valid() and (self._stands is None or await self._stands())):
            if self._writer.fenced:
                raise Fenced
            await self.clock.sleep(ACT_AGAIN_SECONDS)

    def check_run(self, tx: Connection, run_id: str) -> None:
        """Check a run before writing about it: raises TakenAway if it was taken from this worker."""
        if self._check_run is not None:
            self._check_run(tx, run_id)

    async def may_act_for(self, run_id: str, since: float) -> None:
        """`may_act` for a run's tool call. since: clock time when the last commit that checked the run was sent; a
        gateway that takes the run away waits long enough for what follows immediately. Raises Fenced, TakenAway."""
        await self.may_act()
        while self._check_run is not None and self.clock.monotonic() - since > AT_ONCE_SECONDS:
            since = self.clock.monotonic()
            await self.write(lambda tx: self.check_run(tx, run_id))

    async def lease_lost(self) -> None:
        """Return when `lease_valid` is False: at once when the connection that holds PostgreSQL's lead is gone, when
        the lease has expired, and soon after another process has taken over."""
        while self.lease_valid():
            left = self._lease_until - self.clock.monotonic() if self._lead is not None else FENCE_SECONDS
            gone = [] if self._lead is None else [self._lead.lost()]
            await until_first(self.clock.sleep(max(SHORTEST_LOOK, min(left, FENCE_SECONDS))), *gone)

    async def recorded(self, recording: Coroutine[Any, Any, None]) -> bool:
        """Wait for `recording`, which records an external action. False if the lead was lost first and there is still
        time to undo the action, as no other process acts yet: recording is abandoned, and may or may not be written."""
        if self._lead is None:
            await recording
            return True
        working, losing = asyncio.ensure_future(recording), asyncio.ensure_future(self.lease_lost())
        try:
            await asyncio.wait({working, losing}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done() and self._may_undo():
                return False
            await working
        finally:
            working.cancel()
            losing.cancel()
            await asyncio.gather(working, losing, return_exceptions=True)
        return True

    def _may_undo(self) -> bool:
        """Whether a successor, if any, is still waiting for this process to stop."""
        return not self._writer.fenced and self.clock.monotonic() < self._led_at + UNDO_SECONDS

    async def processes(self) -> tuple[str, list[str]] | None:
        """The leader and the standbys, as `host:pid`; None on SQLite. Raises StoreUnavailable."""
        if self._lead is None:
            return None
        from bot.store.leadership import STANDING_BY

        def found(tx: Connection) -> tuple[str, list[str]]:
            owner = tx.exec_driver_sql("SELECT owner FROM instance WHERE id = 1").scalar() or ""
            return writer.short_name(owner), [row[0] for row in tx.execute(text(STANDING_BY))]

        return await self.read(found)

    async def close(self) -> None:
        """Write what is queued, release the lease, close the connections. Idempotent; never raises StoreError."""
        if self._closed:
            return
        self._closed = True
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)
        if self._leads:
            try:
                await self._queue.submit(UNIT, (writer.release_lease,))
            except (StoreUnavailable, Fenced) as error:
                log.warning("lease not released: %s", error)
        await self._queue.close()
        if self._lead is not None:
            await self._lead.close()
        await asyncio.get_running_loop().run_in_executor(None, self._shut_down)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    def _query(self, query: Callable[[Connection], T]) -> T:
        with _as_own_errors(self._url), self._reader_engine.connect() as tx, tx.begin():
            return query(tx)

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
                log.warning("lease not renewed: %s", error)
            except Fenced as error:
                log.error("%s", error)
                return
            else:
                self._lease_until = asked + writer.LEASE_SECONDS

    async def _keep_lead(self) -> None:
        """Regain the lead after its connection broke, unless another process was faster."""
        from bot.store.leadership import REGAIN_SECONDS, Lead

        while self._lead is not None:
            await self._lead.lost()
            log.warning("the lead is lost, as its connection broke (%s): nothing is sent", self._lead.why or "closed")
            await self._lead.close()
            again: Lead | None = None
            told = False
            while again is None:
                await asyncio.sleep(REGAIN_SECONDS)
                asked = self.clock.monotonic()
                try:
                    again = await Lead.regain(self._url, self.epoch)
                except Fenced as error:
                    self._writer.fenced = True
                    log.error("%s", error)
                    return
                except StoreUnavailable as error:
                    log.debug("the lead was not regained: %s", error)
                except UnfitDatabase as error:
                    log.log(logging.DEBUG if told else logging.ERROR, "the lead cannot be regained: %s", error)
                    told = True
            self._lead, self._lease_until = again, asked + writer.LEASE_SECONDS
            log.info("this process has the lead again")


@contextmanager
def _as_own_errors(url: URL) -> Iterator[None]:
    """Translate driver errors of an unusable database into StoreErrors."""
    try:
        yield
    except DBAPIError as error:
        typed = unavailable(error, url)
        if typed is None:
            raise
        raise typed from error


def _look(url: URL) -> None:
    """Verify that this program can use the database."""
    engine = sql.reader_engine(url)
    try:
        with _as_own_errors(url), engine.connect() as tx:
            # Alone on being asked: a standby may be promoted at any time.
            if tx.dialect.name == "postgresql" and tx.scalar(text("SELECT pg_is_in_recovery()")):
                raise StoreUnavailable("the server is a read-only standby: database.url has to name the primary")
            revision = schema.known_revision(tx, beside=True)
    finally:
        engine.dispose()
    if revision is None or revision in schema.STEPS.revisions[:-1]:
        raise StoreUnavailable("the database is not prepared yet: a gateway of this version prepares it when it starts")


def _take(url: URL) -> int:
    """Prepare the schema and take the epoch, in one transaction."""
    if url.get_backend_name() == "sqlite":
        sql.prepare_file(url)
    engine = sql.writer_engine(url, foreign_keys=False)
    try:
        with _as_own_errors(url), engine.connect() as tx, tx.begin():
            leads = tx.dialect.name == "postgresql"
            schema.prepare(tx, leads=leads)
            return writer.take_over(tx, writer.process_name(locks=leads))
    finally:
        engine.dispose()
