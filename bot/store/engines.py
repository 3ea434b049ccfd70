"""How connections are made: the pragmas and options that the store's promises rest on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool, QueuePool

from bot.store.errors import StoreUnavailable

if TYPE_CHECKING:
    import sqlite3

    from sqlalchemy import Connection, Engine

READERS = 2
POSTGRES_OPTIONS: dict[str, Any] = {
    "connect_timeout": 5,
    "application_name": "antler",
    # A dead network is noticed within half a minute, idle or in mid-statement (PostgreSQL docs, libpq connection).
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
SESSION_OPTIONS = "-c idle_in_transaction_session_timeout=20s -c lock_timeout=10s"
"""The server ends the transaction of a process that froze (stopped, a paused machine) before its lease runs out: else
its lock on the instance row would keep the next process waiting for ever."""


def parse(url: str) -> URL:
    """The checked URL. Raises StoreUnavailable when no database can be behind it."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StoreUnavailable("the database URL cannot be read") from error
    if parsed.get_backend_name() == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() != "sqlite":
        raise StoreUnavailable(f"the database URL must start with sqlite: or postgresql:, not {parsed.drivername}:")
    if not parsed.database or parsed.database == ":memory:":
        raise StoreUnavailable("the database URL names no file")
    return parsed


def libpq_url(database: str) -> str:
    """A PostgreSQL URL as libpq takes it, with the options of the store's own connections where it names no others;
    anything else (a path) unchanged."""
    if "://" not in database:
        return database
    url = make_url(database).set(drivername="postgresql")
    given = {name: str(value) for name, value in POSTGRES_OPTIONS.items() if name not in url.query}
    return url.update_query_dict(given).render_as_string(hide_password=False)


def prepare_file(url: URL) -> None:
    """Make sure that SQLite's file exists and is ours alone (0600; its -wal and -shm get the same mode)."""
    path = Path(url.database or "")
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError as error:
        raise StoreUnavailable(f"database {path}: {error.strerror or error}") from error


def writer_engine(url: URL, *, foreign_keys: bool = True) -> Engine:
    """For the one writing connection: each commit is on the disk when it returns.

    foreign_keys: off only for migrations, which on SQLite rebuild a table by copying and dropping it.
    """
    if url.get_backend_name() != "sqlite":
        return _engine(url, poolclass=NullPool, connect_args=_postgres_options(url))
    # Made in the writer's thread, but closed by whoever closes the store.
    engine = _engine(url, poolclass=NullPool, connect_args={"check_same_thread": False})
    # What is deleted is overwritten: it shall not be found in the file any more (docs/privacy.md).
    pragmas = ["PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA secure_delete=ON"]
    _on_sqlite_connect(engine, *pragmas, *(["PRAGMA foreign_keys=ON"] if foreign_keys else []))
    # A deferred transaction that reads first and writes then fails at once when another one wrote in between.
    _on_begin(engine, "BEGIN IMMEDIATE")
    return engine


def reader_engine(url: URL) -> Engine:
    """For queries: each sees one moment of the database, none can change it."""
    pool: dict[str, Any] = {"poolclass": QueuePool, "pool_size": READERS, "max_overflow": 0}
    if url.get_backend_name() != "sqlite":
        engine = _engine(
            url, connect_args=_postgres_options(url), isolation_level="REPEATABLE READ", pool_pre_ping=True, **pool
        )
        return engine.execution_options(postgresql_readonly=True)
    engine = _engine(url, connect_args={"check_same_thread": False}, **pool)
    _on_sqlite_connect(engine, "PRAGMA query_only=ON")
    _on_begin(engine, "BEGIN")
    return engine


def _engine(url: URL, **options: Any) -> Engine:
    """hide_parameters: what is written are people's words, and the text of an error goes to the log."""
    return create_engine(url, hide_parameters=True, **options)


def _postgres_options(url: URL) -> dict[str, Any]:
    own = url.query.get("options", "")  # the later one wins, so that the URL can say otherwise
    return POSTGRES_OPTIONS | {"options": f"{SESSION_OPTIONS} {own if isinstance(own, str) else ' '.join(own)}"}


def _on_sqlite_connect(engine: Engine, *pragmas: str) -> None:
    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # the driver must not begin transactions of its own
        for pragma in pragmas:
            connection.execute(pragma)


def _on_begin(engine: Engine, statement: str) -> None:
    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(statement)
