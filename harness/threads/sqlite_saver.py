"""LangGraph's synchronous SQLite saver, driven from asyncio through one dedicated thread.

AsyncSqliteSaver is built on aiosqlite, whose public calls switch threads for every statement, fetch and commit, about
ninety times a turn, which was a third of a turn's CPU. Here a call is one hop. The tables are the same.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from langgraph.checkpoint.sqlite import SqliteSaver

from harness.threads.held import Holding, HoldingSaver, Put
from harness.threads.outage import Outage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory

    from harness.threads.held import Step

log = logging.getLogger(__name__)

PASSING = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_BUSY})
"""Failures that an operator can fix at run time: a full disk, a file system that became read-only."""
PRIMARY = 0xFF
"""The part of an extended result code that is the primary code (SQLite docs, Result and Error Codes)."""

P = ParamSpec("P")
T = TypeVar("T")


class ThreadedSqliteSaver(HoldingSaver, SqliteSaver):
    """Create it with `open`. A cancelled caller's work is still done, completely or not at all.

    saw: called with the id of every checkpoint that is read: the clock may have been set back since it was made.
    """

    def __init__(self, connection: sqlite3.Connection, thread: ThreadPoolExecutor, saw: Callable[[str], None]) -> None:
        super().__init__(connection)
        self._thread = thread
        self._saw = saw
        self._outage = Outage(log.warning, "checkpoints cannot be written", "checkpoints are written again")
        self._shared: sqlite3.Cursor | None = None
        self.holding = Holding(self._written, self._write)

    @classmethod
    async def open(cls, path: Path, saw: Callable[[str], None]) -> ThreadedSqliteSaver:
        """Open the database. Raises sqlite3.Error."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        connecting = thread.submit(_connect, path)
        try:
            saver = cls(await asyncio.wrap_future(connecting), thread, saw)
            await saver.in_thread(saver.setup)
        except BaseException:  # including a cancelled start: neither thread nor connection may be left over
            if not connecting.cancelled():
                thread.submit(_discard, connecting)
            thread.shutdown(wait=False)
            raise
        return saver

    async def in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` in the saver's thread, after all earlier work."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(work, *args, **kwargs))

    async def run(self, statement: str, parameters: tuple[Any, ...], *also: str) -> list[Any]:
        """Execute statements with the same parameters, in one transaction; returns the rows of the first."""
        return await self.in_thread(self._run, statement, parameters, also)

    def _run(self, statement: str, parameters: tuple[Any, ...], also: tuple[str, ...]) -> list[Any]:
        with self.cursor() as cursor:
            rows = cursor.execute(statement, parameters).fetchall()
            for each in also:
                cursor.execute(each, parameters)
            return rows

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """A cursor in a transaction, undone on failure; the parent's commits half of it, which a resume would trust."""
        if self._shared is not None:
            yield self._shared
            return
        with self.conn, closing(self.conn.cursor()) as cursor:
            yield cursor

    async def close(self) -> None:
        """Close the connection; no call may be in progress."""
        await self.in_thread(self.conn.close)
        self._thread.shutdown()

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        if (head := self.holding.head(config)) is not None:
            return head.saved
        await self.holding.flush(config)
        saved = await self.in_thread(self.get_tuple, config)
        if saved is not None:
            self._saw(saved.checkpoint["id"])
        return saved

    async def alist(self, config: RunnableConfig | None, **which: Any) -> AsyncIterator[CheckpointTuple]:
        await self.holding.flush(config)
        for saved in await self.in_thread(lambda: [*self.list(config, **which)]):
            yield saved

    async def _written(self, steps: Sequence[Step]) -> None:
        """Write the steps, waiting for disk space."""
        await self._outage.wait_out(partial(self._write, steps), sqlite3.OperationalError, _passing)

    async def _write(self, steps: Sequence[Step]) -> None:
        await self.in_thread(self._write_all, steps)

    def _write_all(self, steps: Sequence[Step]) -> None:
        with self.cursor() as self._shared:
            try:
                for step in steps:
                    if isinstance(step, Put):
                        self.put(step.config, step.checkpoint, step.metadata, step.new_versions)
                    else:
                        self.put_writes(step.config, step.writes, step.task_id, step.task_path)
            finally:
                self._shared = None

    async def adelete_thread(self, thread_id: str) -> None:
        await self.holding.flush({"configurable": {"thread_id": thread_id}})
        await self.in_thread(self.delete_thread, thread_id)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        await self.holding.flush(config)
        return await self.in_thread(self.get_delta_channel_history, config=config, channels=channels)


def _passing(error: Exception) -> bool:
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & PRIMARY in PASSING


def _discard(connecting: Future[sqlite3.Connection]) -> None:
    """Close a connection that will not be used."""
    if connecting.exception() is None:
        connecting.result().close()


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA busy_timeout=5000")
    # For a newly created file: its free pages can be returned to the disk.
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    connection.execute("PRAGMA journal_mode=WAL")
    # WAL with NORMAL survives any crash of the process; a power cut may cost the last commits, never the file.
    connection.execute("PRAGMA synchronous=NORMAL")
    # Deleted data is overwritten, so that it cannot be found in the file any more.
    connection.execute("PRAGMA secure_delete=ON")
    # A write-ahead log enlarged by something long, such as a backup, is truncated.
    connection.execute("PRAGMA journal_size_limit=16000000")
    # In KB, a quarter of the default: a thread's pages are read once a turn, and the system caches them too.
    connection.execute("PRAGMA cache_size=-512")
    return connection
