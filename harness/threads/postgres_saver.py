"""LangGraph's PostgreSQL saver, extended to wait for an unavailable server instead of failing the run."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import OperationalError
from psycopg.errors import InsufficientPrivilege, ProgramLimitExceeded, ReadOnlySqlTransaction
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, PoolClosed

from harness.threads.held import Holding, HoldingSaver, Put
from harness.threads.outage import Outage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from typing import LiteralString

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory
    from psycopg import AsyncConnection, AsyncCursor
    from psycopg.rows import DictRow

    from harness.ports import Fence
    from harness.threads.held import Step

log = logging.getLogger(__name__)

T = TypeVar("T")

CONNECTIONS = 8
POOL_SECONDS = 10.0
"""Seconds that one attempt waits for a connection."""
RECONNECT_SECONDS = 5.0
"""Seconds for which the pool tries to reconnect by itself: its pauses double, so after an outage of minutes runs would
wait for minutes more. After it gave up, the next attempt makes it try at once."""
SETUP_LOCK, LOOK_EVERY = 7_043_105_117, 0.1
"""Lock held by the process that creates the tables; seconds between another process's checks of it."""
LACKING = """
    SELECT string_agg(format('GRANT SELECT, INSERT, UPDATE, DELETE ON %%I TO %%I', name, current_user), '; ')
    FROM unnest('{checkpoint_migrations,checkpoints,checkpoint_blobs,checkpoint_writes}'::text[]) AS name
    WHERE EXISTS (SELECT FROM unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS right_to
        WHERE NOT has_table_privilege(to_regclass(name), right_to))
"""
"""What the role may not do with those tables that exist, as the statements that allow it."""
PASSING = (OperationalError, ReadOnlySqlTransaction)
"""Failures that end without a change here: a server that restarts, a cut network, a full disk, a replica that is about
to be promoted (PostgreSQL docs, appendix A, classes 08, 53, 57 and 25006)."""
LASTING = (PoolClosed, ProgramLimitExceeded)
"""Those that no waiting ends: the saver was closed, or the row is larger than PostgreSQL can store (54000)."""


class Superseded(Exception):
    """Another process took over this one's work: nothing more is written from here."""

    def __init__(self) -> None:
        super().__init__("another process took over; this process no longer writes checkpoints")


async def _bounded(connection: AsyncConnection[Any]) -> None:
    """Limit idle transactions: a frozen process must not hold the fence's row, or rows that its successor writes."""
    await connection.execute("SET idle_in_transaction_session_timeout = '20s'")


class RetryingPostgresSaver(HoldingSaver, AsyncPostgresSaver):
    """Create it with `open`. Every call is retried until the server answers; all of them are safe to repeat.

    saw: called with the id of every checkpoint read: another process, whose clock is ahead, may have made it. fence:
    queried in the transaction of every write; Superseded is raised if it denies. None: there are no other writers.
    leads: whether this process owns the threads now. Otherwise it writes nothing: another one continues them.
    """

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        saw: Callable[[str], None],
        fence: Fence | None = None,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(pool)
        self._pool = pool
        self._saw = saw
        self._fence = fence
        self._leads = leads
        self._outage = Outage(log.warning, "checkpoint database unreachable", "checkpoint database reachable again")
        self._thread: ContextVar[str] = ContextVar("written_thread", default="")
        self._shared: ContextVar[AsyncCursor[DictRow] | None] = ContextVar("shared_cursor", default=None)
        self.holding = Holding(self._steps_written, self._write)

    @classmethod
    async def open(
        cls,
        url: str,
        saw: Callable[[str], None],
        fence: Fence | None = None,
        leads: Callable[[], bool] = lambda: True,
    ) -> RetryingPostgresSaver:
        """Connect to a libpq URL and create the tables. Raises psycopg.Error, which names missing rights."""

        async def check(connection: AsyncConnection[Any]) -> None:
            try:
                await AsyncConnectionPool.check_connection(connection)
            except OperationalError:
                await pool.drain()  # whatever cut it has cut the others too, and pauses double from one to the next
                raise

        pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
            url,
            kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
            max_size=CONNECTIONS,
            timeout=POOL_SECONDS,
            configure=_bounded,
            # Connections that a server restart has cut are replaced before they are handed out.
            check=check,
            open=False,
        )
        try:
            await pool.open(wait=True)
            pool.reconnect_timeout = RECONNECT_SECONDS
            saver = cls(pool, saw, fence, leads)
            await saver._made()
        except BaseException:  # including a cancelled start: no connection may be left open
            await pool.close()
            raise
        return saver

    async def _made(self) -> None:
        """Create the tables, or wait for another process to do so: LangGraph's own setup does not expect any."""
        async with self._pool.connection() as connection:
            # Not by waiting in the server: building an index concurrently waits for every running statement.
            while True:
                if await self._asked(connection, "SELECT pg_try_advisory_lock(%s)", SETUP_LOCK):
                    break
                await asyncio.sleep(LOOK_EVERY)
            if grants := await self._asked(connection, LACKING):
                raise InsufficientPrivilege(f"the role may not use the threads' tables: {grants}")
            # The setup would need the right to create tables, even where nothing is left to create.
            there = await self._asked(connection, "SELECT to_regclass('checkpoint_migrations')")
            newest = await self._asked(connection, "SELECT max(v) FROM checkpoint_migrations") if there else None
            if newest is None or newest < len(self.MIGRATIONS) - 1:
                await self.setup()
            await self._asked(connection, "SELECT pg_advisory_unlock(%s)", SETUP_LOCK)

    async def _asked(self, connection: AsyncConnection[Any], statement: LiteralString, *parameters: int) -> Any:
        """The only value of the query's only row."""
        row = await (await connection.execute(statement, parameters)).fetchone()
        return None if row is None else next(iter(row.values()))

    async def close(self) -> None:
        """Close the connections; no call may be in progress."""
        await self._pool.close()

    async def run(self, statement: str, parameters: tuple[Any, ...], *also: str) -> list[Any]:
        """Execute statements with the same parameters (?), in one transaction; returns the rows of the first."""
        return await self._written(partial(self._run, statement, parameters, also))

    async def _run(self, statement: str, parameters: tuple[Any, ...], also: tuple[str, ...]) -> list[Any]:
        reads = statement.startswith("SELECT")
        async with self._pool.connection() as connection, nullcontext() if reads else connection.transaction():
            if not reads:
                await self._check(connection.cursor())
            cursor = await connection.execute(statement.replace("?", "%s"), parameters)
            for each in also:
                await connection.execute(each.replace("?", "%s"), parameters)
            return [tuple(row.values()) for row in await cursor.fetchall()] if cursor.description else []

    @asynccontextmanager
    async def _cursor(self, *, pipeline: bool = False) -> AsyncIterator[AsyncCursor[DictRow]]:
        """A cursor; with pipeline: for a write, in one transaction. Overrides the one through which the saver does all
        its work."""
        shared = self._shared.get()
        if shared is not None:
            yield shared
            return
        if not pipeline:
            async with super()._cursor() as cursor:
                yield cursor
            return
        async with super()._cursor(pipeline=True) as cursor, cursor.connection.transaction():
            await self._check(cursor)
            yield cursor

    async def _check(self, cursor: AsyncCursor[DictRow]) -> None:
        """Query the fence, as the first statement of each writing transaction."""
        if self._fence is not None:
            await cursor.execute(*self._fence(self._thread.get()))
            if await cursor.fetchone() is None:
                raise Superseded

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        if (head := self.holding.head(config)) is not None:
            return head.saved
        await self.holding.flush(config)
        saved = await self._answered(partial(super().aget_tuple, config))
        if saved is not None:
            self._saw(saved.checkpoint["id"])
        return saved

    async def alist(self, config: RunnableConfig | None, **which: Any) -> AsyncIterator[CheckpointTuple]:
        await self.holding.flush(config)

        async def collect() -> list[CheckpointTuple]:
            return [saved async for saved in AsyncPostgresSaver.alist(self, config, **which)]

        for saved in await self._answered(collect):
            yield saved

    async def _steps_written(self, steps: Sequence[Step]) -> None:
        await self._written(partial(self._write, steps))

    async def _write(self, steps: Sequence[Step]) -> None:
        """Write the steps in one transaction. Raises OperationalError if this process does not lead."""
        self._lead()
        self._thread.set(steps[0].config["configurable"]["thread_id"])  # they all belong to one thread
        async with self._cursor(pipeline=True) as cursor:
            token, saver = self._shared.set(cursor), AsyncPostgresSaver
            try:
                for step in steps:
                    if isinstance(step, Put):
                        await saver.aput(self, step.config, step.checkpoint, step.metadata, step.new_versions)
                    else:
                        await saver.aput_writes(self, step.config, step.writes, step.task_id, step.task_path)
            finally:
                self._shared.reset(token)

    async def adelete_thread(self, thread_id: str) -> None:
        await self.holding.flush({"configurable": {"thread_id": thread_id}})
        self._thread.set(thread_id)
        await self._written(partial(super().adelete_thread, thread_id))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        await self.holding.flush(config)
        return await self._answered(partial(super().aget_delta_channel_history, config=config, channels=channels))

    async def _written(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call once the server is available and this process leads."""

        async def write() -> T:
            self._lead()
            return await call()

        return await self._answered(write)

    async def _answered(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call once the server is available."""
        return await self._outage.wait_out(call, PASSING, lambda error: not isinstance(error, LASTING))

    def _lead(self) -> None:
        if not self._leads():
            raise OperationalError("this process is not the leader")
