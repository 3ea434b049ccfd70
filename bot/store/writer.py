"""The only thread that writes: one connection, one transaction for everything that waited. Driven by write_queue.py."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DBAPIError

from bot.store import instance
from bot.store.bulk import Bulk
from bot.store.errors import Fenced, StoreError, StoreUnavailable, unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Engine

log = logging.getLogger(__name__)

UNIT: Bulk[Callable[[Connection], Any], Any] = Bulk("unit", lambda tx, units: [unit(tx) for unit in units])
"""Plain units of work as one more bulk kind: they run one after the other."""


FILE_SIZE = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
VACUUMED_BYTES = 64_000_000
"""A file up to this size is written anew in less than a second. In a larger one `secure_delete` has to do: it zeroes
what is deleted, but for rare remains (about one in a thousand rows) inside pages that were laid out anew before."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """What one caller wants written, all or nothing."""

    bulk: Bulk[Any, Any]
    rows: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One result per row of the job, or the error that its caller gets."""

    results: list[Any]
    error: Exception | None = None


class Writer:
    """Runs batches. Every method is called in the one writing thread."""

    def __init__(self, engine: Engine, epoch: int) -> None:
        self._engine = engine
        self._epoch = epoch
        self._connection: Connection | None = None
        self.fenced = False

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Write all jobs in one transaction; when one of them fails, each in its own, so that only it fails."""
        try:
            results = self._transact(jobs)
        except (Fenced, StoreUnavailable) as error:
            return [Outcome([], error) for _ in jobs]
        except Exception as error:  # whatever a unit raises belongs to its caller
            if len(jobs) == 1:
                return [Outcome([], error)]
            log.debug("a batch of %d failed, running them one by one", len(jobs))
            return [outcome for job in jobs for outcome in self.run([job])]
        return [Outcome(rows) for rows in results]

    def scrub(self) -> bool:
        """SQLite: write the file anew, where that takes no time, and empty its log, so that what was deleted is in
        neither. False when a reader was in the way. Elsewhere nothing is to be done."""
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
        """Close the connection; a later `run` opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # Not handed back: whatever state it is in ends here, an open transaction with it.
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
        except BaseException:  # whatever a unit raises: what it wrote must not be committed with the next batch
            self._undo()
            raise
        return results

    def _begin(self) -> Connection:
        """Begin, and be sure that nobody took over. A connection that died while it was idle is replaced once."""
        if self.fenced:
            raise Fenced
        if self._connection is not None:
            try:
                instance.check(self._connection, self._epoch)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                self.close()
            else:
                return self._connection
        self._connection = self._engine.connect()
        instance.check(self._connection, self._epoch)
        return self._connection

    def _undo(self) -> None:
        if self._connection is None:
            return
        try:
            self._connection.rollback()
        except DBAPIError:
            self.close()


def _merge(tx: Connection, bulk: Bulk[Any, Any], jobs: Sequence[Job] | Any) -> list[list[Any]]:
    """Run neighbours of one kind as one; deal the results out again."""
    members: list[Job] = list(jobs)
    results = bulk.run(tx, [row for job in members for row in job.rows])
    dealt, start = [], 0
    for job in members:
        dealt.append(results[start : start + len(job.rows)])
        start += len(job.rows)
    if start != len(results):
        raise StoreError(f"{bulk.name} returned {len(results)} results for {start} rows")
    return dealt
