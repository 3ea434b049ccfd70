"""What the store raises, and the one place where a database driver's errors become ours.

StoreError
  StoreUnavailable      the database cannot be used now (full, read-only, locked, gone): later writes may work again
    StoreBusy           another process leads; owner names it
  UnfitDatabase         what database.url names can never serve: remedy says what can
    SessionsNotKept     a pooler before PostgreSQL gives sessions away between transactions
    NotUtf8             the database cannot keep all that people write
  StoreNewer            the database was written by a newer version of the program: nothing was touched
  StoreTooOld           the database was written by a version of before the first release: nothing was touched
  Fenced                another process took over: this one must stop, none of its writes will ever be accepted
  StoreClosed           used after close
AccessUnreadable, AccountConflict, AlreadyAssigned, OwnerMismatch are StoreErrors too, each defined next to the function
that raises it.
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
"""Primary result codes (sqlite.org/rescode.html) that say something about the file and not about the statement."""

POSTGRES_UNAVAILABLE = ("08", "25006", "28", "3D000", "40", "53", "55P03", "57", "58", "F0", "XX")
"""SQLSTATE prefixes (PostgreSQL docs, appendix A): connection, read-only, login, missing database, deadlock, out of
resources, lock not available, shutdown or cancelled, system error, configuration file, internal error."""


class StoreError(Exception):
    """Base. The text is for operators and holds no password."""


class StoreUnavailable(StoreError):
    """The database did not take it. Nothing of the unit is kept, except when the connection broke during the commit:
    then it may be, so repeat only what is idempotent."""


class StoreBusy(StoreUnavailable):
    """owner: the process that leads, as `host:pid`; "" where that is not known."""

    def __init__(self, owner: str) -> None:
        who = owner or "another process"
        super().__init__(f"the database is in use by {who}; stop that process, or wait until its lease runs out")
        self.owner = owner


class UnfitDatabase(StoreError):
    """says: what is wrong with the database that is named. remedy: what to do about it."""

    def __init__(self, says: str, remedy: str) -> None:
        super().__init__(f"database.url: {says}: {remedy}")
        self.says = says
        self.remedy = remedy


class SessionsNotKept(UnfitDatabase):
    """A lock that belongs to a session does not hold where the next transaction is in another one."""

    def __init__(self) -> None:
        super().__init__(
            "the pooler before the database gives sessions away after each transaction (PgBouncer's pool_mode = "
            "transaction), so that nobody could hold the lead",
            "use pool_mode = session, or the server's own address",
        )


class NotUtf8(UnfitDatabase):
    """encoding: of the database, as the server names it. SQL_ASCII, which a server without a locale has, is none."""

    def __init__(self, encoding: str) -> None:
        super().__init__(
            f"the database's encoding is {encoding}, and only UTF8 keeps all that people write",
            "name a database that has it (CREATE DATABASE antler ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0)",
        )


class StoreNewer(StoreError):
    """revision: what the database says about itself and this program does not know."""

    def __init__(self, revision: str) -> None:
        super().__init__(
            f"the database has revision {revision}, which is newer than this program: install that version"
        )
        self.revision = revision


class StoreTooOld(StoreError):
    """The database comes from a development version. revision: what it says about itself."""

    def __init__(self, database: URL, revision: str) -> None:
        if database.get_backend_name() == "sqlite":
            name, remedy = database.database, "move that file away"
        else:
            name, remedy = database.render_as_string(hide_password=True), "name another database, or empty this one,"
        super().__init__(
            f"the database {name} comes from a development version of Antler (revision {revision}), whose tables cannot"
            f" be upgraded: {remedy} and start again, or go on with that version"
        )
        self.revision = revision


class Fenced(StoreError):
    """Another process took over the database."""

    def __init__(self) -> None:
        super().__init__("another process took over the database; nothing more is written from here")


class TakenAway(StoreError):
    """A run was taken from this worker, as it did not stop it when it was asked to."""

    def __init__(self) -> None:
        super().__init__("the run was taken from this worker; nothing more is written of it from here")


class StoreClosed(StoreError):
    """The store was closed."""

    def __init__(self) -> None:
        super().__init__("the store is closed")


def unavailable(error: DBAPIError, url: URL) -> StoreUnavailable | None:
    """The typed error for a database that cannot be used; None when the statement itself was wrong."""
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
    # Without a SQLSTATE the server never answered: psycopg raises OperationalError for a failed or lost connection.
    return first_line if type(error.orig).__name__ == "OperationalError" else None
