"""Table-driven tests: one item for all rows, if a row costs less than an item."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

Test = Callable[..., None]
PARAM = type(pytest.param())


def table(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize`, within one item: all rows run, and failed ones are reported together.

    Fixtures are created once, so rows must leave them unchanged.
    """
    columns = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else names
    known = [dict(zip(columns, _values(row, len(columns)), strict=True)) for row in rows]
    assert known, "a table without rows tests nothing"

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def every_row(**fixtures: Any) -> None:
            failed: list[BaseException] = []
            for row in known:
                try:
                    test(**fixtures, **row)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"the row: {row!r:.2000}")
                    failed.append(error)
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(known)} rows", failed)

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in columns]
        every_row.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return every_row

    return decorate


def _values(row: Any, columns: int) -> tuple[Any, ...]:
    if isinstance(row, PARAM):
        return tuple(row.values)
    return tuple(row) if columns > 1 else (row,)
