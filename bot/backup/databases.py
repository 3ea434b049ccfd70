"""Snapshots of the databases as files: SQLite's by its backup API, PostgreSQL's tables by COPY in one transaction."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql as pg
from pydantic import BaseModel, ConfigDict
from sqlalchemy import inspect, text
from sqlalchemy.exc import DBAPIError

from bot.store import migrations, schema, sql, worker_runs
from bot.store.errors import StoreError, StoreNewer, StoreUnavailable, unavailable
from bot.store.tables import metadata
from bot.store.writer import refuse_while_leased

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from bot.settings import Settings

PAGES = 2048
"""Pages of SQLite copied between two reports of progress: 8 MB."""
CHUNK = 1 << 20
HISTORY = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
"""LangGraph's tables in PostgreSQL; the records of its own migrations are not copied."""
OF_WORKERS = ("worker_runs", "worker_events", "worker_drafts", "workers")
"""Tables that are not filled: their ids are of jobs and workers of that time, and others may get the same ones."""
OLD_PATHS = {"runs": ("input",), "outbox": ("body",), "inbox": ("event",)}
"""JSON columns that contain full paths of files in the data folder."""

Tell = Callable[[str, int], None]
"""Called with what was copied, and how many bytes of it."""


class TableFile(BaseModel):
    """A table of PostgreSQL, its rows in COPY's text format. numbers: column -> the last number assigned."""

    model_config = ConfigDict(frozen=True)

    name: str
    columns: tuple[str, ...]
    numbers: dict[str, int] = {}


class Databases(BaseModel):
    """The copied databases. revision: of the schema. tables: of PostgreSQL, in the order in which they are filled."""

    model_config = ConfigDict(frozen=True)

    kind: str
    revision: str
    tables: tuple[TableFile, ...] = ()


class NotEmpty(StoreError):
    """The database to be filled contains data."""


def snapshot(settings: Settings, folder: Path, tell: Tell) -> Databases:
    """Write copies as of one moment to `folder`. Raises StoreError; a gateway may be running."""
    url = sql.parse(settings.database_url)
    try:
        if url.get_backend_name() == "sqlite":
            return _sqlite_snapshot([Path(url.database or ""), Path(settings.checkpoints)], folder, tell)
        return _postgres_snapshot(sql.libpq_url(settings.checkpoints), folder, tell)
    except (sqlite3.Error, psycopg.Error) as error:
        place = url.render_as_string(hide_password=True)
        raise StoreUnavailable(f"the database {place} cannot be copied: {_first_line(error)}") from error


def check(known: Databases, settings: Settings) -> None:
    """Raise StoreError where this program, or the database of these settings, cannot accept the copy."""
    kind = sql.parse(settings.database_url).get_backend_name()
    if known.kind != kind:
        right = "set database.url" if known.kind == "postgresql" else "remove database.url"
        raise StoreUnavailable(f"the copy is of {known.kind}, but the config names {kind}: {right} and try again")
    if known.revision not in migrations.REVISIONS:
        raise StoreNewer(known.revision)


def fill(settings: Settings, known: Databases, folder: Path, *, replace: bool) -> None:
    """Load the tables of a copy into PostgreSQL, all or nothing. replace: drop existing data. Raises StoreError,
    NotEmpty; StoreBusy while a gateway holds the database."""
    url = sql.parse(settings.database_url)
    engine = sql.writer_engine(url)
    try:
        _make_history(sql.libpq_url(settings.checkpoints))
        with engine.connect() as tx, tx.begin():
            _make_room(tx, replace=replace)
            schema.run_steps(tx, schema.STEPS, known.revision)
            for table in known.tables:
                if table.name not in OF_WORKERS:
                    _fill_table(tx, table, folder / f"{table.name}.copy")
            worker_runs.end_all(tx)
            tx.execute(text("UPDATE instance SET owner = '', lease_until = NULL"))
    except DBAPIError as error:
        raise unavailable(error, url) or StoreUnavailable(f"the copy does not fit: {_first_line(error)}") from error
    except psycopg.Error as error:
        raise StoreUnavailable(f"the copy does not fit: {_first_line(error)}") from error
    finally:
        engine.dispose()


def move_paths(settings: Settings, old: Path) -> None:
    """Point paths that refer to files of the former data folder `old` to this one. Raises StoreError."""
    if old == settings.data_dir:
        return
    was, now = (json.dumps(str(folder), ensure_ascii=False)[:-1] + "/" for folder in (old, settings.data_dir))
    url = sql.parse(settings.database_url)
    engine = sql.writer_engine(url)
    try:
        with engine.connect() as tx, tx.begin():
            for table, columns in OLD_PATHS.items():
                for column in columns:
                    change = text(f"UPDATE {table} SET {column} = replace({column}, :was, :now)")
                    tx.execute(change, {"was": was, "now": now})
    except DBAPIError as error:
        raise unavailable(error, url) or StoreUnavailable(_first_line(error)) from error
    finally:
        engine.dispose()


def _sqlite_snapshot(files: Sequence[Path], folder: Path, tell: Tell) -> Databases:
    if not files[0].exists():
        raise StoreUnavailable(f"there is no database {files[0]} yet; `antler run` creates it")
    with ExitStack() as stack:
        sources = []
        # The agent's history comes second: it holds whatever the first refers to. Reading begins the transaction.
        for file in files:
            if file.exists():
                connection = stack.enter_context(closing(sqlite3.connect(file, isolation_level=None)))
                connection.execute("PRAGMA busy_timeout=10000")
                connection.execute("BEGIN")
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
                sources.append((file, connection))
        for file, source in sources:
            _copy_sqlite(source, folder / file.name, tell)
        revision = sources[0][1].execute("SELECT version_num FROM alembic_version").fetchone()[0]
    return Databases(kind="sqlite", revision=revision)


def _copy_sqlite(source: sqlite3.Connection, target: Path, tell: Tell) -> None:
    """Copy the state as of the source's open transaction, however much is written since."""
    size = source.execute("PRAGMA page_size").fetchone()[0]
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(target)) as copy:
        source.backup(copy, pages=PAGES, progress=lambda *_: tell(target.name, PAGES * size))


def _postgres_snapshot(url: str, folder: Path, tell: Tell) -> Databases:
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        if row is None:
            raise StoreUnavailable("the database has no revision; `antler run` creates its tables")
        tables = [*(table.name for table in metadata.sorted_tables), *HISTORY]
        copied = [_copy_table(connection, name, folder / f"{name}.copy", tell) for name in tables]
        return Databases(kind="postgresql", revision=str(row[0]), tables=tuple(each for each in copied if each))


def _copy_table(connection: psycopg.Connection[Any], name: str, target: Path, tell: Tell) -> TableFile | None:
    """Copy a table; None where it does not exist, as the agent has not worked yet."""
    columns = _columns(connection, name)
    if not columns:
        return None
    query = pg.SQL("COPY {} ({}) TO STDOUT").format(pg.Identifier(name), pg.SQL(", ").join(map(pg.Identifier, columns)))
    with connection.cursor() as cursor, cursor.copy(query) as copy, target.open("wb") as file:
        for data in copy:
            file.write(data)
            tell(name, len(data))
    numbers = {}
    for column in columns:
        row = connection.execute("SELECT pg_get_serial_sequence(%s, %s)", (name, column)).fetchone()
        if row is not None and row[0] is not None:
            last = connection.execute(f"SELECT last_value FROM {row[0]}".encode()).fetchone()
            numbers[column] = int(last[0]) if last is not None else 1
    return TableFile(name=name, columns=tuple(columns), numbers=numbers)


def _columns(connection: psycopg.Connection[Any], table: str) -> list[str]:
    query = (
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = current_schema() AND table_name = %s ORDER BY ordinal_position"
    )
    return [name for (name,) in connection.execute(query, (table,))]


def _make_history(url: str) -> None:
    """Create LangGraph's tables with its own migrations."""
    from langgraph.checkpoint.postgres import PostgresSaver  # takes a second to import

    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()


def _make_room(tx: Connection, *, replace: bool) -> None:
    tx.execute(text(f"SELECT pg_advisory_xact_lock({schema.OPEN_LOCK})"))
    tables = set(inspect(tx).get_table_names())
    ours = sorted(tables & {*metadata.tables, schema.alembic_version.name})
    if "instance" in tables:
        refuse_while_leased(tx)
    if ours and not replace:
        raise NotEmpty("the database already holds an Antler: name an empty one in database.url, or give --force")
    for table in ours:
        tx.execute(text(f"DROP TABLE {table} CASCADE"))
    tx.execute(text(f"TRUNCATE {', '.join(HISTORY)}"))


def _fill_table(tx: Connection, table: TableFile, source: Path) -> None:
    driver = tx.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    names = pg.SQL(", ").join(map(pg.Identifier, table.columns))
    query = pg.SQL("COPY {} ({}) FROM STDIN").format(pg.Identifier(table.name), names)
    with driver.cursor() as cursor:
        with cursor.copy(query) as copy, source.open("rb") as file:
            while data := file.read(CHUNK):
                copy.write(data)
        for column, number in table.numbers.items():
            cursor.execute("SELECT setval(pg_get_serial_sequence(%s, %s), %s)", (table.name, column, number))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
