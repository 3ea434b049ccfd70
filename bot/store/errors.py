"""The errors that the store raises, and the one place where a database driver's errors are translated into them.

StoreError
  StoreUnavailable      the database cannot be used now (full, read-only, locked, gone): later writes may succeed
    StoreBusy           another process leads; owner names it
  UnfitDatabase         the database at database.url can never be used: remedy says what to do
    SessionsNotKept     a pooler in front of PostgreSQL reassigns sessions between transactions
    NotUtf8             the database cannot store everything that people write
  StoreNewer            the database was written by a newer version of the program: nothing was touched
  StoreTooOld           the database was written by a version from before the first release: nothing was touched
  Fenced                another process took over: this one must stop, none of its writes will be accepted again
  StoreClosed           used after close
AccessUnreadable, AccountConflict, AlreadyAssigned and OwnerMismatch are StoreErrors too, each defined next to the
function that raises it.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy.engine import URL
    from sqlalchemy.exc import DBAPIError

SQLITE_UNAVAILABLE = {
    sqlite3.SQLITE_PERM: "permission denied",
    sqlite3.SQLITE_BUSY: "locked by another program",
    sqlite3.SQLITE_LOCKED: "locked by another program",
    sqlite3.SQLITE_NOMEM: "out of memory",
    sqlite3.SQLITE_READONLY: "read-only",
    sqlite3.SQLITE_IOERR: "the disk reported an error",
    sqlite3.SQLITE_CORRUPT: "the file is damaged",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_PROTOCOL: "locked by another program",
    sqlite3.SQLITE_NOTADB: "the file is not a database",
}
"""Primary result codes (sqlite.org/rescode.html) that concern the file and not the statement."""

POSTGRES_UNAVAILABLE = ("08", "25006", "28", "3D000", "3F000", "40", "42501", "53", "55P03", "57", "58", "F0", "XX")
"""SQLSTATE prefixes (PostgreSQL docs, appendix A): connection, read-only, login, missing database, missing schema,
deadlock, missing right, out of resources, lock not available, shutdown or cancelled, system error, configuration file,
internal error."""


class StoreError(Exception):
    """Base class. The text is for operators and contains no password."""


class StoreUnavailable(StoreError):
    """The database did not accept a unit. Nothing of it is kept, except that it may be if the connection broke during
    the commit: repeat only what is idempotent."""


class StoreBusy(StoreUnavailable):
    """Another process leads. owner: that process, as `host:pid`; "" if it is not known."""

    def __init__(self, owner: str) -> None:
        who = owner or "another process"
        super().__init__(f"the database is in use by {who}; stop that process, or wait until its lease runs out")
        self.owner = owner


class UnfitDatabase(StoreError):
    """The configured database cannot be used. says: what is wrong with it. remedy: what to do about it."""

    def __init__(self, says: str, remedy: str) -> None:
        super().__init__(f"database.url: {says}: {remedy}")
        self.says = says
        self.remedy = remedy


class SessionsNotKept(UnfitDatabase):
    """A session-level lock does not hold if the next transaction runs in another session."""

    def __init__(self) -> None:
        super().__init__(
            "the pooler in front of the database changes sessions after each transaction (PgBouncer's pool_mode = "
            "transaction), so no process could hold the lead",
            "use pool_mode = session, or the server's own address",
        )


class NotUtf8(UnfitDatabase):
    """The encoding is not UTF8. encoding: the server's name for it; SQL_ASCII (no locale) is none."""

    def __init__(self, encoding: str) -> None:
        super().__init__(
            f"the database's encoding is {encoding}, and only UTF8 can store all text that people write",
            "use a database with that encoding (CREATE DATABASE antler ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0)",
        )


class StoreNewer(StoreError):
    """A newer version wrote the database. revision: the one recorded in it, unknown to this program."""

    def __init__(self, revision: str) -> None:
        super().__init__(
            f"the database has revision {revision}, which is newer than this program: install that version"
        )
        self.revision = revision


class StoreTooOld(StoreError):
    """The database comes from a development version. revision: the one recorded in it."""

    def __init__(self, database: URL, revision: str) -> None:
        if database.get_backend_name() == "sqlite":
            name, remedy = database.database, "move that file away"
        else:
            name, remedy = database.render_as_string(hide_password=True), "use another database, or empty this one,"
        super().__init__(
            f"the database {name} comes from a development version of Antler (revision {revision}), whose tables cannot"
            f" be upgraded: {remedy} and start again, or continue with that version"
        )
        self.revision = revision


class Fenced(StoreError):
    """Another process took over the database."""

    def __init__(self) -> None:
        super().__init__("another process took over the database; this one writes nothing more")


class TakenAway(StoreError):
    """A run was taken from this worker because the worker did not stop it when requested."""

    def __init__(self) -> None:
        super().__init__("the run was taken from this worker, which writes nothing more of it")


class StoreClosed(StoreError):
    """The store was closed."""

    def __init__(self) -> None:
        super().__init__("the store is closed")


def unavailable(error: DBAPIError, url: URL) -> StoreUnavailable | None:
    """Return the typed error for a database that cannot be used; None when the statement itself was wrong."""
    reason = _sqlite_reason(error.orig) if url.get_backend_name() == "sqlite" else _postgres_reason(error)
    if reason is None:
        return None
    return StoreUnavailable(f"database {url.render_as_string(hide_password=True)}: {reason}")


def _sqlite_reason(error: BaseException | None) -> str | None:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return None
    reason = SQLITE_UNAVAILABLE.get(code & 0xFF)
    return None if reason is None else f"{reason} ({error})"


def _postgres_reason(error: DBAPIError) -> str | None:
    state = getattr(error.orig, "sqlstate", None)
    first_line = str(error.orig).strip().partition("\n")[0]
    if error.connection_invalidated:
        return f"the connection broke ({first_line})"
    if state is not None:
        return first_line if state.startswith(POSTGRES_UNAVAILABLE) else None
    # Without a SQLSTATE, the server never answered: psycopg raises OperationalError for a failed or lost connection.
    return first_line if type(error.orig).__name__ == "OperationalError" else None
