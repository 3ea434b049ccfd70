"""The few things that SQLAlchemy Core leaves to the caller: column types, ON CONFLICT, list sizes, ordered ids."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import BigInteger, Integer, Text, TypeDecorator
from sqlalchemy.dialects import postgresql, sqlite

from bot.store.encoding import from_json, storable, to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pydantic import TypeAdapter
    from sqlalchemy import Column, Connection, Dialect, Table
    from sqlalchemy.sql.dml import ReturningInsert

T = TypeVar("T")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
CHUNK = 1000
"""Values of one IN list: far below SQLite's 32 766 and PostgreSQL's 65 535 parameters of a statement."""

BigId = BigInteger().with_variant(Integer, "sqlite")
"""A generated id: SQLite numbers rows only in a column that is declared INTEGER."""


class SafeText(TypeDecorator[str]):
    """Text of any origin, made storable on its way in (and in comparisons, so that lookups agree)."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


class Instant(TypeDecorator[datetime]):
    """An aware time as integer microseconds since 1970, UTC.

    Integers because both databases sort, compare and index them alike and exactly; an ISO text sorts right only while
    every writer uses the same number of digits. In a SQL shell: `datetime(created_at / 1000000, 'unixepoch')`.
    """

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else (value - EPOCH) // MICROSECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        return None if value is None else EPOCH + value * MICROSECOND


class Json(TypeDecorator[T]):
    """A value as the JSON text of `adapter`; `unreadable` in place of what another version stored in another form."""

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
    """An INSERT that can say ON CONFLICT; the two dialects spell it alike but in classes of their own."""
    return _insert(tx.dialect.name, table)


def insert_numbered(tx: Connection, column: Column[int], rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Insert `rows` into the column's table and return the generated ids, in the order of `rows`."""
    ids = tx.scalars(_insert_numbered(tx.dialect.name, column), rows)
    # On SQLite AUTOINCREMENT counts up and VALUES are inserted one after the other; only RETURNING is unordered.
    return sorted(ids) if tx.dialect.name == "sqlite" else list(ids)


# Statements are immutable, and building one costs as much as running it: these run with every message.
@cache
def _insert(dialect: str, table: Table) -> sqlite.Insert | postgresql.Insert:
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


@cache
def insert_new(dialect: str, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that leaves rows alone whose primary key is there already. dialect: `Connection.dialect.name`."""
    return _insert(dialect, table).on_conflict_do_nothing(index_elements=list(table.primary_key.columns))


@cache
def insert_once(dialect: str, column: Column[str]) -> sqlite.Insert | postgresql.Insert:
    """As insert_new, by a unique column that is not the key."""
    return _insert(dialect, column.table).on_conflict_do_nothing(index_elements=[column])


@cache
def _insert_numbered(dialect: str, column: Column[int]) -> ReturningInsert[*tuple[Any, ...]]:
    ordered = dialect != "sqlite"
    return _insert(dialect, column.table).returning(column, sort_by_parameter_order=ordered)


def chunks(values: Iterable[T], size: int = CHUNK) -> Iterator[list[T]]:
    """Cut a list into pieces that fit one statement."""
    iterator = iter(values)
    while piece := list(islice(iterator, size)):
        yield piece
