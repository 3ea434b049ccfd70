"""Sheets of an Excel file, row by row; called by _tables.py."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from _form import stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

warnings.filterwarnings("ignore", module="openpyxl")
"""It tells of looks (extensions of formats) that it does not read."""


@dataclass
class Sheet:
    """One visible or hidden sheet with at least one cell."""

    name: str
    rows: Callable[[], Iterator[list[object]]]
    notes: list[str] = field(default_factory=list)


def sheets_of(path: Path, *, old: bool) -> list[Sheet]:
    """old: the binary format (.xls)."""
    try:
        return _old_sheets(path) if old else _new_sheets(path)
    except ImportError as error:
        stop(f"{error}", "the packages for the agent's code are missing here; ask for a CSV export")
    except Exception as error:  # the readers raise what they like for broken and for encrypted files
        stop(
            f"{path.name} cannot be read as Excel: {error}",
            "it may be broken or have a password; ask for it again, or for CSV",
        )


def _new_sheets(path: Path) -> list[Sheet]:
    import openpyxl

    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    sheets = []
    for page in book.worksheets:
        notes = ["this sheet is hidden in Excel"] if page.sheet_state != "visible" else []

        def rows(page: Any = page) -> Iterator[list[object]]:
            # What a file says of its own size may be wrong; without it every row is read as wide as it is.
            page.reset_dimensions()
            yield from (list(row) for row in page.iter_rows(values_only=True))

        if next(rows(), None) is not None:
            sheets.append(Sheet(page.title, rows, [*notes, *_uncalculated(path, page.title)]))
    return sheets


def _uncalculated(path: Path, title: str, looked_at: int = 50) -> list[str]:
    """A program that is no spreadsheet writes formulas without their results: such cells look empty."""
    import openpyxl

    formulas = openpyxl.load_workbook(path, read_only=True)
    values = openpyxl.load_workbook(path, read_only=True, data_only=True)
    pairs = zip(formulas[title].iter_rows(max_row=looked_at), values[title].iter_rows(max_row=looked_at), strict=False)
    missing = sum(
        cell.data_type == "f" and value.value is None
        for row, results in pairs
        for cell, value in zip(row, results, strict=False)
    )
    formulas.close()
    values.close()
    return (
        [f"{missing} formulas have no stored result and read as missing: open and save it in Excel first"]
        if missing
        else []
    )


def _old_sheets(path: Path) -> list[Sheet]:
    import xlrd

    book = xlrd.open_workbook(str(path), on_demand=True)
    sheets = []
    for page in book.sheets():

        def rows(page: Any = page) -> Iterator[list[object]]:
            for number in range(page.nrows):
                yield [_old_value(cell, book.datemode) for cell in page.row(number)]

        if page.nrows:
            sheets.append(Sheet(page.name, rows, ["this sheet is hidden in Excel"] if page.visibility else []))
    return sheets


def _old_value(cell: Any, datemode: int) -> object:
    import xlrd

    if cell.ctype == xlrd.XL_CELL_DATE:
        return xlrd.xldate_as_datetime(cell.value, datemode)
    if cell.ctype == xlrd.XL_CELL_BOOLEAN:
        return bool(cell.value)
    if cell.ctype in (xlrd.XL_CELL_ERROR, xlrd.XL_CELL_EMPTY, xlrd.XL_CELL_BLANK):
        return None
    return cell.value
