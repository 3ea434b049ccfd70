"""Shared by all tables: connections, column types, ON CONFLICT, list sizes, ordered ids, text that databases accept."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError
from sqlalchemy import BigInteger, Integer, Text, TypeDecorator, create_engine, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool, QueuePool

from bot.store.errors import NotUtf8, StoreUnavailable

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import psycopg
    from pydantic import TypeAdapter
    from sqlalchemy import Column, Connection, Dialect, Engine, Table
    from sqlalchemy.sql.dml import ReturningInsert


T = TypeVar("T")
# Text that every database accepts: PostgreSQL rejects NUL, UTF-8 has no lone surrogates, and strangers send both.

REPLACEMENT = "\ufffd"


def storable(text: str) -> str:
    """Return `text` with each NUL and each lone surrogate replaced by U+FFFD; nearly always the same object."""
    if "\0" in text:
        text = text.replace("\0", REPLACEMENT)
    return text if text.isascii() else _without_lone_surrogates(text)


def to_json(adapter: TypeAdapter[T], value: T) -> str:
    """Return JSON that `adapter.validate_json` reads back. A NUL survives (as an escape), a lone surrogate becomes
    U+FFFD: it is no character, and the HTTP bodies to the model and the platform could not encode it either."""
    try:
        return adapter.dump_json(value).decode()
    except PydanticSerializationError:
        document = adapter.dump_python(value, mode="json")
        return _without_lone_surrogates(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def from_json(adapter: TypeAdapter[T], text: str) -> T | None:
    """Read what `to_json` wrote; None if another version of the program wrote it in another form."""
    try:
        return adapter.validate_json(text)
    except ValidationError:
        return None


def _without_lone_surrogates(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
CHUNK = 1000
"""Most values of one IN list: far below the 32 766 (SQLite) and 65 535 (PostgreSQL) parameters of a statement."""

BigId = BigInteger().with_variant(Integer, "sqlite")
"""The type of a generated id: SQLite numbers rows only in a column declared as INTEGER."""


class SafeText(TypeDecorator[str]):
    """Text of any origin, made storable on its way in (and in comparisons, so that lookups agree)."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


class Instant(TypeDecorator[datetime]):
    """An aware time as integer microseconds since 1970, UTC.

    Both databases sort, compare and index integers alike and exactly; ISO text sorts correctly only while every writer
    uses the same number of digits. In a SQL shell: `datetime(created_at / 1000000, 'unixepoch')`.
    """

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else (value - EPOCH) // MICROSECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        return None if value is None else EPOCH + value * MICROSECOND


class Json(TypeDecorator[T]):
    """A value as the JSON text of `adapter`; `unreadable` if another version stored it in another form."""

    impl = Text
    cache_ok = True

    def __init__(self, adapter: TypeAdapter[T], unreadable: T) -> None:
        super().__init__()
        self.adapter = adapter
        self.unreadable = unreadable

    def process_bind_param(self, value: T | None, dialect: Dialect) -> str | None:
        return None if value is None else to_json(self.adapter, value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> T | None:
        if value is None:
            return None
        known = from_json(self.adapter, value)
        return self.unreadable if known is None else known


class Ids(TypeDecorator[tuple[int, ...]]):
    """A short list of row ids as JSON text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: tuple[int, ...] | None, dialect: Dialect) -> str | None:
        return None if value is None else json.dumps(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> tuple[int, ...] | None:
        return None if value is None else tuple(json.loads(value))


def insert(tx: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT that supports ON CONFLICT; the two dialects have separate classes for it."""
    return _insert(tx.dialect.name, table)


def insert_numbered(tx: Connection, column: Column[int], rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Insert `rows` into the column's table and return the generated ids, in the order of `rows`."""
    ids = tx.scalars(_insert_numbered(tx.dialect.name, column), rows)
    # On SQLite, AUTOINCREMENT counts up and VALUES are inserted in order; only RETURNING is unordered.
    return sorted(ids) if tx.dialect.name == "sqlite" else list(ids)


# Cached: statements are immutable, building one costs as much as running it, and these run with every message.
@cache
def _insert(dialect: str, table: Table) -> sqlite.Insert | postgresql.Insert:
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


@cache
def insert_new(dialect: str, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT that skips rows whose primary key already exists. dialect: `Connection.dialect.name`."""
    return _insert(dialect, table).on_conflict_do_nothing(index_elements=list(table.primary_key.columns))


@cache
def insert_once(dialect: str, column: Column[str]) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT that skips rows whose value in a unique column other than the key already exists."""
    return _insert(dialect, column.table).on_conflict_do_nothing(index_elements=[column])


@cache
def _insert_numbered(dialect: str, column: Column[int]) -> ReturningInsert[*tuple[Any, ...]]:
    ordered = dialect != "sqlite"
    return _insert(dialect, column.table).returning(column, sort_by_parameter_order=ordered)


def chunks(values: Iterable[T], size: int = CHUNK) -> Iterator[list[T]]:
    """Split values into lists that fit one statement."""
    iterator = iter(values)
    while piece := list(islice(iterator, size)):
        yield piece


Row = TypeVar("Row")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class Bulk(Generic[Row, Result]):
    """One kind of bulk write, defined once per module and passed to `Store.add`.

    name: for logs. run: writes all rows in order and returns one result per row. It may receive the rows of several
    callers and may run again after a rollback, so it has no effects other than on its connection.
    """

    name: str
    run: Callable[[Connection, Sequence[Row]], list[Result]]


# Connections: the pragmas and options that the guarantees of the store depend on.

READERS = 2
LOG_BYTES = 16_000_000
"""SQLite's write-ahead log is truncated to this size after something long, such as a backup, made it larger."""
CACHE_KB = 512
"""Page cache of a reading connection, a quarter of SQLite's default; the operating system caches the pages too."""
POSTGRES_OPTIONS: dict[str, Any] = {
    "connect_timeout": 5,
    "application_name": "antler",
    "client_encoding": "UTF8",  # whatever PGCLIENTENCODING or the role sets: other encodings lack what people write
    # A dead network is detected within half a minute, idle or in mid-statement (PostgreSQL docs, libpq connection).
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
SESSION_LIMITS = """
    SELECT set_config(name, value, false)
    FROM (VALUES ('idle_in_transaction_session_timeout', '20s'), ('lock_timeout', '10s')) AS wanted(name, value)
    WHERE current_setting(name) = '0'
"""
"""The server ends the transaction of a frozen process (stopped, or on a paused machine) before its lease expires;
otherwise its lock on the instance row would block the next process. Values from the URL or the role take precedence.
Set by a statement, because PgBouncer rejects connections with such startup options."""
END_FROZEN = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity AS session
    WHERE datname = current_database() AND state = 'active' AND wait_event = 'ClientRead'
      AND state_change < clock_timestamp() - interval '20 s'
      AND EXISTS (
        SELECT FROM pg_locks AS held WHERE held.pid = session.pid
          AND relation IN (to_regclass('instance'), to_regclass('procrastinate_workers'))
      )
"""
"""Ends transactions that this limit misses: those in the middle of a pipeline count as active while the server waits
for the rest (PostgreSQL docs, libpq pipeline mode). Checkpoints are written by such transactions."""


def parse(url: str) -> URL:
    """Return the checked URL. Raises StoreUnavailable if it cannot name a database."""
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
    """Return a PostgreSQL URL in libpq's form, with the options of the store's own connections unless it sets others;
    anything else (a path) unchanged."""
    if "://" not in database:
        return database
    url = make_url(database).set(drivername="postgresql")
    given = {name: str(value) for name, value in POSTGRES_OPTIONS.items() if name not in url.query}
    place, mark, query = url.update_query_dict(given).render_as_string(hide_password=False).partition("?")
    return place + mark + query.replace("+", "%20")  # to libpq, a plus is a literal plus


def require_utf8(info: psycopg.ConnectionInfo) -> None:
    """Raise NotUtf8 if the server reports another encoding of the database."""
    encoding = info.parameter_status("server_encoding")
    if encoding not in (None, "UTF8"):  # None: a pooler does not pass it on
        raise NotUtf8(encoding)


def prepare_file(url: URL) -> None:
    """Ensure that SQLite's file exists and is accessible only to us (0600; its -wal and -shm get the same mode)."""
    path = Path(url.database or "")
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError as error:
        raise StoreUnavailable(f"database {path}: {error.strerror or error}") from error


def writer_engine(url: URL, *, foreign_keys: bool = True) -> Engine:
    """Return the engine of the one writing connection: each commit is on disk when it returns.

    foreign_keys: off only for migrations, which on SQLite rebuild a table by copying and dropping it.
    """
    if url.get_backend_name() != "sqlite":
        return _postgres_engine(url, poolclass=NullPool)
    # Opened in the writer's thread, but closed by the thread that closes the store.
    engine = _engine(url, poolclass=NullPool, connect_args={"check_same_thread": False})
    # secure_delete overwrites deleted data, so that it does not remain in the file (docs/privacy.md). auto_vacuum is
    # for a file that is being created (space.py), and has no effect once a table exists.
    pragmas = [
        "PRAGMA auto_vacuum=INCREMENTAL",
        "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=FULL",
        "PRAGMA secure_delete=ON",
        f"PRAGMA journal_size_limit={LOG_BYTES}",
        f"PRAGMA cache_size=-{2 * CACHE_KB}",  # a large transaction stays out of the log until its end
    ]
    _on_sqlite_connect(engine, *pragmas, *(["PRAGMA foreign_keys=ON"] if foreign_keys else []))
    # A deferred transaction that first reads and then writes fails at once if another one wrote in between.
    _on_begin(engine, "BEGIN IMMEDIATE")
    return engine


def reader_engine(url: URL) -> Engine:
    """Return the engine of queries: each sees a consistent snapshot, and none can change the database."""
    pool: dict[str, Any] = {"poolclass": QueuePool, "pool_size": READERS, "max_overflow": 0}
    if url.get_backend_name() != "sqlite":
        engine = _postgres_engine(url, isolation_level="REPEATABLE READ", pool_pre_ping=True, **pool)
        return engine.execution_options(postgresql_readonly=True)
    engine = _engine(url, connect_args={"check_same_thread": False}, **pool)
    _on_sqlite_connect(engine, "PRAGMA query_only=ON", f"PRAGMA cache_size=-{CACHE_KB}")
    _on_begin(engine, "BEGIN")
    return engine


def _engine(url: URL, **options: Any) -> Engine:
    """Create an engine. hide_parameters: the values are people's words, and error texts go to the log."""
    return create_engine(url, hide_parameters=True, **options)


def _postgres_engine(url: URL, **options: Any) -> Engine:
    engine = _engine(url, connect_args=POSTGRES_OPTIONS, **options)

    # Runs before SQLAlchemy queries the server's version, which it cannot read if texts have no encoding.
    @event.listens_for(engine, "connect", insert=True)
    def _limit(connection: psycopg.Connection[Any], _record: object) -> None:
        require_utf8(connection.info)
        connection.execute(SESSION_LIMITS)
        connection.commit()

    return engine


def _on_sqlite_connect(engine: Engine, *pragmas: str) -> None:
    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # the driver must not begin transactions itself
        for pragma in pragmas:
            connection.execute(pragma)


def _on_begin(engine: Engine, statement: str) -> None:
    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(statement)
