"""Leader election on PostgreSQL: the leader holds a session-level advisory lock on a dedicated connection.

The server frees the lock when that connection ends, however its process ended. The epoch (writer.py) fences the writes
of a process that has lost the lock, and the lease bounds how long an unreachable leader may still consider itself the
leader. docs/scaling.md walks through the possible orders of events.
"""

from __future__ import annotations

import asyncio
import logging
import select
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg import errors

from bot.store import sql, writer
from bot.store.errors import Fenced, SessionsNotKept, StoreBusy, StoreUnavailable
from channels.supervision import within

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Seconds between two attempts of a standby; a leader that stops wakes it at once."""
REACTION_SECONDS = 2.0
"""Time for a leader to notice that it lost the lock and to stop before its successor begins: twice what it needs."""
REGAIN_SECONDS = 2.0
"""Delay before a leader that lost its connection tries to regain the lock; standbys try sooner, so they come first."""
CLAIM_SECONDS = 0.2
"""Time for a process that has just acquired the lock to record that in the row, before an expired lease is believed."""
FREED_SECONDS = 3.0
"""Time for the server to end a session after it was told to."""
POOL_SECONDS = 3.0
POOL_TRIES = 3
LEADER, STANDBY, CHECK = "antler leader", "antler standby", "antler check"
"""The application_name in pg_stat_activity, followed by the process's name."""

CHANNEL = "antler_lead"
# One lock for each schema that Antler's tables may be in: 0x616E746C is "antl".
KEY = "1634628716, hashtext(coalesce(current_schema(), ''))"
LOCK = f"SELECT pg_try_advisory_lock({KEY}), pg_backend_pid()"
UNLOCK = f"SELECT pg_advisory_unlock_all(), pg_notify('{CHANNEL}', '')"
HOLDERS = """
    SELECT pid FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 2 AND granted AND pid <> pg_backend_pid()
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (classid::bigint, objid::bigint)
        = (1634628716, hashtext(coalesce(current_schema(), ''))::bigint & 4294967295)
"""
EXPIRED = f"lease_until < {writer.SERVER_NOW} - {round(REACTION_SECONDS * 1_000_000)}"
END_HOLDERS = f"""
    SELECT pg_terminate_backend(pid) FROM ({HOLDERS}) AS holders
    WHERE EXISTS (SELECT FROM instance WHERE id = 1 AND {EXPIRED})
"""
LOOK = f"SELECT owner, coalesce({EXPIRED}, false) FROM instance WHERE id = 1"
SEEN = f"SELECT owner, coalesce(lease_until > {writer.SERVER_NOW}, false) FROM instance WHERE id = 1 FOR UPDATE"
LENGTHEN = f"UPDATE instance SET lease_until = {writer.LEASE} WHERE id = 1".encode()
STANDING_BY = f"""
    SELECT substr(application_name, {len(STANDBY) + 2}) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE '{STANDBY} %' ORDER BY backend_start
"""
"""Selects the names of the standby processes."""


def _session(lease: int) -> dict[str, str]:
    """Return the session settings of the lock's connection. The server must not consider an unreachable leader gone
    before that leader's lease has expired, and the connection may be idle."""
    return {
        "tcp_user_timeout": f"{lease * 1500}",
        "tcp_keepalives_idle": f"{max(1, lease // 2)}",
        "tcp_keepalives_interval": f"{max(1, lease // 6)}",
        "tcp_keepalives_count": "6",
        "idle_session_timeout": "0",
        "statement_timeout": "0",
        "lock_timeout": "1s",
        "idle_in_transaction_session_timeout": "5s",
    }


class Lead:
    """A connection that competes for the lead, and has it once `attempt` returns True.

    leader: the leader at the last check, as `host:pid`; "" if there was none. why: why the connection was lost, or "".
    """

    def __init__(self, connection: psycopg.AsyncConnection[Any], url: URL) -> None:
        self.leader = ""
        self.why = ""
        self._url = url
        self._connection = connection
        self._socket = connection.fileno()
        self._backend = 0
        self._renews = True
        self._lost = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._hung_up = select.poll()
        # POLLRDHUP reports the end even while data that was sent before it is unread.
        self._hung_up.register(self._socket, select.POLLRDHUP)

    @classmethod
    async def connect(cls, url: URL) -> Self:
        """Return a connection that has not tried for the lead yet. Raises StoreUnavailable, UnfitDatabase."""
        try:
            connection = await _connected(url, STANDBY)
            lead = cls(connection, url)
            try:
                await lead._prepare()
            except BaseException:
                await lead.close()
                raise
        except psycopg.Error as error:
            raise _unavailable(url, error) from error
        return lead

    @classmethod
    async def take(cls, url: URL) -> Self:
        """Take the lead at once. Raises StoreBusy while another process has it, StoreUnavailable, UnfitDatabase."""
        lead = await cls.connect(url)
        try:
            if not await lead.attempt():
                raise StoreBusy(lead.leader)
        except BaseException:
            await lead.close()
            raise
        return lead

    @classmethod
    async def regain(cls, url: URL, epoch: int) -> Self | None:
        """Regain the lead for a process that lost its connection; None while another process holds the lock. Raises
        Fenced when another process has led since, StoreUnavailable, UnfitDatabase."""
        lead = await cls.connect(url)
        try:
            has_it = await lead._again(epoch)
        except BaseException as error:
            await lead.close()
            if isinstance(error, psycopg.Error):
                raise _unavailable(url, error) from error
            raise
        if not has_it:
            await lead.close()
            return None
        return lead

    @property
    def held(self) -> bool:
        """Whether this process holds the lock, as far as its own kernel knows. Checked before every external action, so
        it polls the socket: the watching task may not have run since the process woke up."""
        return self._watching is not None and not self._lost.is_set() and not self._hung_up.poll(0)

    async def lost(self) -> None:
        """Return when the connection is gone."""
        await self._lost.wait()

    def taken(self) -> None:
        """Note that the process has its epoch and renews the lease with its writes."""
        self._renews = False

    async def attempt(self) -> bool:
        """Try to get the lead; True when this process has it and the previous leader has stopped. Call again after
        `pause`. Raises StoreUnavailable, StoreBusy."""
        try:
            try:
                return await self._attempt()
            except errors.LockNotAvailable as error:  # a process that froze between its check and its commit
                if await self._rows(sql.END_FROZEN):
                    log.warning("a frozen process held the lead's row: its connection was terminated")
                await self._unlock()
                raise StoreBusy(self.leader) from error
        except psycopg.Error as error:
            raise _unavailable(self._url, error) from error

    async def pause(self, seconds: float = LOOK_SECONDS) -> None:
        """Wait before the next attempt, or until the leader announces that it has stopped."""
        await self._readable(seconds)

    async def close(self) -> None:
        """Give the lead back, and close the connection. Idempotent; raises no database errors."""
        gone = self._lost.is_set() or bool(self._hung_up.poll(0))
        self._lost.set()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if self._connection.closed:
            return
        if not gone:
            with suppress(psycopg.Error):
                await self._unlock()
        await self._connection.close()

    # Acquiring the lock.

    async def _prepare(self) -> None:
        wanted = _session(writer.LEASE_SECONDS)
        values = ", ".join(f"('{name}', '{value}')" for name, value in wanted.items())
        # Older servers do not know all of them.
        known = f"SELECT set_config(name, value, false) FROM (VALUES {values}) AS wanted(name, value)"
        await self._connection.execute(f"{known} WHERE name IN (SELECT name FROM pg_settings)".encode())
        await _check_pool(self._connection, self._url)
        await self._connection.execute(f"LISTEN {CHANNEL}".encode())

    async def _attempt(self) -> bool:
        if not await self._lock():
            if not await self._sees_expired():
                return False
            await asyncio.sleep(CLAIM_SECONDS)
            if not await self._sees_expired():
                return False
            log.warning("the lease of %s has expired: its lock is terminated", self.leader or "the leader")
            await self._rows(END_HOLDERS)
            if not await self._freed():
                return False
        waits = await self._claim()
        await self._rename(LEADER)  # before the watch, which waits on the same socket
        self._begin()
        if waits:
            await asyncio.sleep(REACTION_SECONDS)
            if not self.held:
                raise psycopg.OperationalError(self.why or "the connection broke")
        return True

    async def _again(self, epoch: int) -> bool:
        """See regain."""
        await self._check(epoch)
        if not await self._lock():
            return False
        await self._check(epoch)
        owner = writer.process_name(locks=True)
        statement = f"UPDATE instance SET owner = %s, lease_until = {writer.LEASE} WHERE id = 1"
        await self._connection.execute(statement.encode(), (owner,))
        await self._rename(LEADER)
        self._begin()
        self.taken()
        return True

    async def _check(self, epoch: int) -> None:
        rows = await self._rows("SELECT epoch FROM instance WHERE id = 1")
        if not rows or rows[0][0] != epoch:
            raise Fenced

    async def _lock(self) -> bool:
        ((got, self._backend),) = await self._rows(LOCK)
        return bool(got)

    async def _freed(self) -> bool:
        for _ in range(round(FREED_SECONDS / 0.1)):
            if await self._lock():
                return True
            await asyncio.sleep(0.1)
        return False

    async def _unlock(self) -> None:
        if self._watching is None or self._watching.done():
            await self._connection.execute(UNLOCK.encode())

    async def _sees_expired(self) -> bool:
        """Whether the leader's lease has expired. Updates `leader`."""
        try:
            rows = await self._rows(LOOK)
        except errors.UndefinedTable:  # the very first process is creating the tables
            rows = []
        self.leader = writer.short_name(rows[0][0]) if rows else ""
        return bool(rows) and bool(rows[0][1])

    async def _claim(self) -> bool:
        """Extend the lease, so that no process mistakes this lock for the former leader's. The former leader's name
        stays in the row until the epoch is incremented: if this process ends before that, the next one must know about
        it.

        Returns whether the former leader may be alive and must be given time. Raises StoreBusy if it is of an older
        version, which holds a lease but no lock.
        """
        try:
            async with self._connection.transaction():
                rows = await self._rows(SEEN)
                owner, leased = rows[0] if rows else ("", False)
                alive = bool(leased and owner) and not writer.is_gone(owner)
                if alive and not writer.locks(owner):
                    raise StoreBusy(writer.short_name(owner))
                await self._connection.execute(LENGTHEN)
        except errors.UndefinedTable:
            return False
        except StoreBusy:
            await self._unlock()
            raise
        return alive

    # Holding the lock.

    def _begin(self) -> None:
        self._watching = asyncio.create_task(self._watch(), name="store-lead")

    async def _watch(self) -> None:
        """Run until the connection ends. The next statement reads what arrives on it."""
        try:
            while True:
                await self._readable(writer.RENEW_SECONDS)
                ((backend,),) = await self._rows("SELECT pg_backend_pid()")
                if backend != self._backend:
                    self.why = str(SessionsNotKept())
                    return
                if self._renews:
                    await self._renew()
        except (psycopg.Error, OSError) as error:
            self.why = _first_line(error)
        finally:
            self._lost.set()

    async def _renew(self) -> None:
        with suppress(errors.UndefinedTable, errors.LockNotAvailable):  # the tables are being created or changed
            await self._connection.execute(LENGTHEN)

    async def _readable(self, seconds: float) -> None:
        """Wait until the server sends something, or that many seconds have passed."""
        loop, said = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._socket, said.set)
        try:
            await within(seconds, said.wait())
        finally:
            loop.remove_reader(self._socket)

    async def _rename(self, role: str) -> None:
        await self._connection.execute(b"SELECT set_config('application_name', %s, false)", (_called(role),))

    async def _rows(self, statement: str) -> list[Any]:
        cursor = await self._connection.execute(statement.encode())
        return await cursor.fetchall()


async def check_pool(url: URL) -> None:
    """Raise UnfitDatabase if no process could hold the lead, StoreUnavailable if that cannot be determined."""
    try:
        async with await _connected(url, CHECK) as connection:
            await _check_pool(connection, url)
    except psycopg.Error as error:
        raise _unavailable(url, error) from error


async def _connected(url: URL, role: str) -> psycopg.AsyncConnection[Any]:
    place = sql.libpq_url(url.render_as_string(hide_password=False))
    # Prepared statements belong to a session, and a misconfigured pooler keeps none.
    connection = await psycopg.AsyncConnection.connect(
        place, autocommit=True, prepare_threshold=None, application_name=_called(role)
    )
    try:
        sql.require_utf8(connection.info)
    except BaseException:
        await connection.close()
        raise
    return connection


def _called(role: str) -> str:
    return f"{role} {writer.short_name(writer.process_name())}"[:63]


async def _check_pool(connection: psycopg.AsyncConnection[Any], url: URL) -> None:
    """Raise SessionsNotKept if a pooler gives two open connections the same session.

    A pooler reports its own number for the session; if the number is the server's, no pooler is in between.
    """
    if (own := await _session_of(connection)) == connection.info.backend_pid:
        return
    other = await _connected(url, CHECK)
    try:
        async with asyncio.timeout(POOL_SECONDS):
            for _ in range(POOL_TRIES):
                async with other.transaction():
                    if await _session_of(other) == own or await _session_of(connection) != own:
                        raise SessionsNotKept
    except TimeoutError:  # it has no second session to give, so the first one is kept
        log.info("the pooler in front of the database could not be examined: it offers only one session")
    finally:
        await other.close()


async def _session_of(connection: psycopg.AsyncConnection[Any]) -> int:
    row = await (await connection.execute(b"SELECT pg_backend_pid()")).fetchone()
    return 0 if row is None else int(row[0])


def _unavailable(url: URL, error: psycopg.Error) -> StoreUnavailable:
    return StoreUnavailable(f"database {url.render_as_string(hide_password=True)}: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
