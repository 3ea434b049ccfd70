"""A kind of write that is cheaper together: waiting calls of one kind become one multi-row statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

Row = TypeVar("Row")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class Bulk(Generic[Row, Result]):
    """One kind, made once per module and passed to `Store.add`.

    name: for logs. run: writes all rows in their order and returns one result per row. It may get the rows of several
    callers at once and may be run a second time after a rollback, so it has no effect but on its connection.
    """

    name: str
    run: Callable[[Connection, Sequence[Row]], list[Result]]
