"""LangGraph's synchronous SQLite saver, driven from asyncio through one thread of its own.

AsyncSqliteSaver is made of aiosqlite, whose public calls enter and leave a thread for every statement, fetch and
commit, about ninety times a turn, which was a third of a turn's CPU. Here a call is one hop. The tables are the same.
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
"""What an operator mends while the process goes on: a full disk, a file system that went read-only."""
PRIMARY = 0xFF
"""The part of an extended result code that names its kind (SQLite docs, Result and Error Codes)."""

P = ParamSpec("P")
T = TypeVar("T")


class ThreadedSqliteSaver(HoldingSaver, SqliteSaver):
    """Make it with `open`. What a cancelled caller asked for is done all the same, wholly or not at all.

    saw: told the id of every checkpoint that is read: the clock may have been set back since it was made.
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
        """Raises sqlite3.Error."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        connecting = thread.submit(_connect, path)
        try:
            saver = cls(await asyncio.wrap_future(connecting), thread, saw)
            await saver.in_thread(saver.setup)
        except BaseException:  # a stop in mid-start among them: the thread and the connection must not stay behind
            if not connecting.cancelled():
                thread.submit(_discard, connecting)
            thread.shutdown(wait=False)
            raise
        return saver

    async def in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` in the saver's thread, after what was asked for before."""
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
        """The parent's commits half of what failed, which a resume would take for the whole; here that is undone."""
        if self._shared is not None:
            yield self._shared
            return
        with self.conn, closing(self.conn.cursor()) as cursor:
            yield cursor

    async def close(self) -> None:
        """Give the connection back; nothing may be under way."""
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
        """Write once there is room for it."""
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
    """Close a connection that nobody will use."""
    if connecting.exception() is None:
        connecting.result().close()


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA busy_timeout=5000")
    # For a file that is made just now: its free pages can be given back to the disk.
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    connection.execute("PRAGMA journal_mode=WAL")
    # WAL with NORMAL survives any crash of the process; a power cut may cost the last commits, never the file.
    connection.execute("PRAGMA synchronous=NORMAL")
    # What is deleted is overwritten: it shall not be found in the file any more.
    connection.execute("PRAGMA secure_delete=ON")
    # What something long, such as a backup, has made of the write-ahead log does not stay.
    connection.execute("PRAGMA journal_size_limit=16000000")
    # In KB, a quarter of the default: a thread's pages are read once a turn, and the system has them as well.
    connection.execute("PRAGMA cache_size=-512")
    return connection
