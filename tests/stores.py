"""Faster stores for tests: SQL is compiled and tables are created once per process, without waiting for the disk."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine

from bot.store import schema, sql

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.engine import URL


def hasten() -> None:
    """Let SQLite stores share compiled statements, as within one gateway, and leave the time of writing to disk to the
    system: tests kill processes, but machines never fail."""
    make, listen = sql._engine, sql._on_sqlite_connect
    first = create_engine("sqlite://")
    first.connect().close()  # now the dialect knows its database

    def engine(url: URL, **options: Any) -> Engine:
        made = make(url, **options)
        if made.dialect.name == "sqlite":
            made.dialect, made._compiled_cache = first.dialect, first._compiled_cache
        return made

    def on_sqlite_connect(engine: Engine, *pragmas: str) -> None:
        listen(engine, *(pragma.replace("synchronous=FULL", "synchronous=OFF") for pragma in pragmas))

    sql._engine, sql._on_sqlite_connect = engine, on_sqlite_connect


def lay(url: str) -> None:
    """Create a database with all tables if there is none, like that of a gateway that never ran."""
    file = Path(sql.parse(url).database or "")
    if not file.exists():
        file.write_bytes(_tables())


@cache
def _tables() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "antler.db")
        engine = sql.writer_engine(sql.parse(f"sqlite:///{file}"), foreign_keys=False)
        with engine.begin() as tx:
            schema.prepare(tx)
        engine.dispose()
        return file.read_bytes()
