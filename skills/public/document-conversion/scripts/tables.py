"""Tables: read from csv, xlsx, xls, json, docx, html, md and pdf; written as xlsx, csv, json or Markdown."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import openpyxl
from blocks import table_as_markdown
from openpyxl.styles import Alignment, Font
from openpyxl.utils import get_column_letter
from openpyxl.utils.exceptions import InvalidFileException
from plain_text import decoded
from report import CannotConvert, Report

if TYPE_CHECKING:
    from pathlib import Path

LONGEST_SHEET_NAME, WIDEST_COLUMN = 31, 60
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d+)?")
"""15 digits are what Excel keeps; leading zeros make a code, which has to stay text."""
_COMMA = re.compile(r"-?\d+,\d+")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass
class Table:
    """rows: with the heading first. Cells are text, numbers, dates or None."""

    name: str
    rows: list[list[Any]]


def read_csv(
    path: Path, report: Report, *, encoding: str = "", delimiter: str = "", decimal_comma: bool = False
) -> Table:
    """encoding, delimiter: found out where they are ""; then told. Raises CannotConvert."""
    raw = path.read_bytes()
    text, used = decoded(raw, encoding, path.name)
    if not delimiter:
        try:
            delimiter = csv.Sniffer().sniff(text[:8192], ",;\t|").delimiter
        except csv.Error:
            delimiter = ","
    rows: list[list[Any]] = [list(row) for row in csv.reader(io.StringIO(text), delimiter=delimiter)]
    report.notes.append(f"{path.name} was read as {used}, parted by {'a tab' if delimiter == chr(9) else delimiter!r}")
    commas = [cell for row in rows[1:] for cell in row if _COMMA.fullmatch(cell.strip())]
    if commas and decimal_comma:
        rows = [[each.replace(",", ".") if _COMMA.fullmatch(each.strip()) else each for each in row] for row in rows]
    elif commas:
        report.notes.append(f"{len(commas)} cells such as {commas[0]} stay text; --decimal-comma makes them numbers")
    uneven = sum(len(row) != len(rows[0]) for row in rows) if rows else 0
    if uneven:
        report.notes.append(f"{uneven} rows of {path.name} have more or fewer cells than its heading: look at them")
    return Table(path.stem, rows)


def read_workbook(path: Path, report: Report) -> list[Table]:
    """A table for each sheet that has cells. Formulas as their last values. Raises CannotConvert."""
    if path.suffix.lower() == ".xls":
        return _read_xls(path)
    try:
        book = openpyxl.load_workbook(path, data_only=True)
        formulas = openpyxl.load_workbook(path)
    except (InvalidFileException, KeyError, OSError, ValueError) as error:
        raise CannotConvert(f"{path.name} cannot be opened: {error}; with a password, take it off in Excel") from None
    tables = []
    empty = charts = pictures = merged = 0
    for sheet in book.worksheets:
        rows = [list(row) for row in sheet.iter_rows(values_only=True)]
        while rows and all(cell is None for cell in rows[-1]):
            rows.pop()
        source = formulas[sheet.title]
        empty += sum(
            isinstance(cell.value, str) and cell.data_type == "f" and sheet[cell.coordinate].value is None
            for row in source.iter_rows()
            for cell in row
        )
        charts += len(source._charts)
        pictures += len(source._images)
        merged += len(source.merged_cells.ranges)
        if sheet.sheet_state != "visible":
            report.notes.append(f'the sheet "{sheet.title}" is hidden in Excel, and converted all the same')
        if rows:
            tables.append(Table(sheet.title, rows))
    report.lost |= {
        "charts": charts,
        "pictures": pictures,
        "merged areas (only their first cell has the value)": merged,
    }
    if empty:
        report.notes.append(
            f"{empty} formulas have no stored value and are empty here: open the file in Excel and save it"
        )
    return tables


def _read_xls(path: Path) -> list[Table]:
    import xlrd

    try:
        book = xlrd.open_workbook(str(path))
    except xlrd.XLRDError as error:
        raise CannotConvert(f"{path.name} cannot be opened: {error}") from None
    return [
        Table(
            sheet.name,
            [[_xls_cell(sheet.cell(r, c), book.datemode) for c in range(sheet.ncols)] for r in range(sheet.nrows)],
        )
        for sheet in book.sheets()
        if sheet.nrows
    ]


def _xls_cell(cell: Any, datemode: int) -> Any:
    import xlrd

    if cell.ctype == xlrd.XL_CELL_DATE:
        return xlrd.xldate_as_datetime(cell.value, datemode)
    if cell.ctype == xlrd.XL_CELL_NUMBER and cell.value == int(cell.value):
        return int(cell.value)
    return None if cell.ctype in (xlrd.XL_CELL_EMPTY, xlrd.XL_CELL_BLANK) else cell.value


def read_json(path: Path) -> list[Table]:
    """A list of objects, or an object of such lists. Raises CannotConvert."""
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CannotConvert(f"{path.name} is not JSON: {error}") from None
    named = value if isinstance(value, dict) else {path.stem: value}
    tables = []
    for name, rows in named.items():
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise CannotConvert(
                f'{path.name}: "{name}" is no list of objects, so it has no columns; write a few lines of Python'
            )
        keys = list(dict.fromkeys(key for row in rows for key in row))
        tables.append(Table(str(name), [keys, *([_flat(row.get(key)) for key in keys] for row in rows)]))
    return tables


def _flat(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def write_xlsx(path: Path, tables: list[Table], report: Report) -> None:
    """Text that looks like a formula stays text; so do codes with leading zeros and numbers of more than 15 digits."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for table in tables:
        sheet = book.create_sheet(_sheet_name(table.name, book.sheetnames))
        for number, row in enumerate(table.rows, 1):
            for column, value in enumerate(row, 1):
                cell = sheet.cell(number, column)
                cell.value = _typed(value) if number > 1 else value
                if isinstance(cell.value, str) and cell.data_type == "f":
                    cell.data_type = "s"
                if number == 1:
                    cell.font = Font(bold=True)
                    cell.alignment = Alignment(wrap_text=True, vertical="top")
        for column in range(1, sheet.max_column + 1):
            longest = max((len(str(row[column - 1])) for row in table.rows[:500] if len(row) >= column), default=8)
            sheet.column_dimensions[get_column_letter(column)].width = min(max(longest + 2, 8), WIDEST_COLUMN)
        sheet.freeze_panes = "A2"
        sheet.auto_filter.ref = sheet.dimensions
    book.save(path)
    report.kept |= {"tables": len(tables), "rows": sum(max(0, len(table.rows) - 1) for table in tables)}
    report.written.append(path)


def _typed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = value.strip()
    if _NUMBER.fullmatch(text) and len(text.replace(".", "").lstrip("-")) <= 15:
        return float(text) if "." in text else int(text)
    if _DAY.fullmatch(text):
        try:
            return date.fromisoformat(text)
        except ValueError:
            return value
    return value or None


def _sheet_name(name: str, used: list[str]) -> str:
    clean = re.sub(r"[\[\]:*?/\\]", " ", name).strip()[:LONGEST_SHEET_NAME] or "Table"
    number, wanted = 2, clean
    while wanted.lower() in [each.lower() for each in used]:
        wanted = f"{clean[: LONGEST_SHEET_NAME - 4]} {number}"
        number += 1
    return wanted


def write_others(path: Path, tables: list[Table], report: Report) -> None:
    """As csv, json or md by the ending; several tables as a csv each, in UTF-8 with Excel's mark."""
    kind = path.suffix.lower()
    if kind == ".csv":
        for table in tables:
            target = path if len(tables) == 1 else path.with_name(f"{path.stem}-{_sheet_name(table.name, [])}.csv")
            with target.open("w", encoding="utf-8-sig", newline="") as file:
                csv.writer(file).writerows([_written(cell) for cell in row] for row in table.rows)
            report.written.append(target)
    elif kind == ".json":
        objects = {
            table.name: [
                dict(zip(map(str, table.rows[0]), (_written(cell) for cell in row), strict=False))
                for row in table.rows[1:]
            ]
            for table in tables
        }
        value = next(iter(objects.values())) if len(objects) == 1 else objects
        path.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")
        report.written.append(path)
    else:
        path.write_text(as_markdown(tables), encoding="utf-8")
        report.written.append(path)
    report.kept |= {"tables": len(tables), "rows": sum(max(0, len(table.rows) - 1) for table in tables)}


def as_markdown(tables: list[Table]) -> str:
    return "\n".join(
        f"## {table.name}\n\n{table_as_markdown([[_written(c) for c in row] for row in table.rows])}"
        for table in tables
    )


def _written(cell: Any) -> Any:
    """A day without a time of day is written without one."""
    if isinstance(cell, datetime):
        return cell.date().isoformat() if cell.time() == datetime.min.time() else cell.isoformat(" ")
    return cell.isoformat() if isinstance(cell, date) else cell
