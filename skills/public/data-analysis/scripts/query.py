"""Asks tables with SQL: every file (and every sheet) becomes a table of SQLite, with typed columns.

  query.py --file sales.csv --schema
  query.py --file a=orders.xlsx --file b=customers.csv --sql "SELECT ... FROM a JOIN b USING (customer)" --output r.csv

Numbers and dates are read as their columns are written (1.234,50 becomes 1234.5; dates become 2026-03-31), missing
values become NULL. Besides SQLite's functions there are median(x), stddev(x), percentile(x, 0..1), regexp(pattern, x).
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sqlite3
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from _columns import Column
from _form import stop
from _tables import Table, Wishes, met, open_tables
from _values import cleaned, moment, number, truth

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOWN = 50
LARGE = 64 << 20
"""Files beyond so many bytes go to a database on disk, so that memory does not bound them."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", action="append", required=True, metavar="[NAME=]PATH", help="may be given again")
    parser.add_argument("--sql", help="one SELECT")
    parser.add_argument("--sql-file", type=Path, help="a file with one SELECT")
    parser.add_argument("--schema", action="store_true", help="show tables, columns and types")
    parser.add_argument(
        "--output", type=Path, help="where all rows go: .csv or .json (make_workbook.py makes Excel of it)"
    )
    parser.add_argument("--limit", type=int, default=SHOWN, help=f"rows to print (default {SHOWN})")
    parser.add_argument("--sheet", help="only this sheet")
    parser.add_argument("--encoding")
    parser.add_argument("--separator")
    parser.add_argument("--header-row", type=int)
    parser.add_argument("--keep-total", action="store_true", help="keep a last row that says Total")
    args = parser.parse_args()
    sql = args.sql_file.read_text() if args.sql_file else args.sql
    if not sql and not args.schema:
        parser.error("give --sql, --sql-file or --schema")
    wishes = Wishes(args.encoding, args.separator, args.header_row, args.sheet, args.keep_total)
    with tempfile.TemporaryDirectory() as folder:
        files = [_named(text) for text in args.file]
        large = sum(path.stat().st_size for _, path in files if path.is_file()) > LARGE
        database = sqlite3.connect(Path(folder) / "tables.db" if large else ":memory:")
        for name, path in files:
            _load_file(database, name, path, wishes, told=args.schema)
        if sql:
            _answer(database, sql, args.output, args.limit)
        database.close()


def _named(text: str) -> tuple[str | None, Path]:
    name, sign, path = text.partition("=")
    return (name, Path(path)) if sign and re.fullmatch(r"\w+", name) else (None, Path(text))


def _load_file(database: sqlite3.Connection, name: str | None, path: Path, wishes: Wishes, *, told: bool) -> None:
    tables = open_tables(path, wishes)
    for table in tables:
        wanted = identifier(table.name if name is None else name if len(tables) == 1 else f"{name}_{table.name}")
        _load(database, _free(database, wanted), table, told=told)


def identifier(text: str) -> str:
    """A name that needs no quotes in SQL: letters of any script, digits and _, lower case."""
    name = re.sub(r"\W+", "_", text.strip()).strip("_").lower() or "column"
    if name[0].isdigit():
        return f"_{name}"
    return f"{name}_" if name.upper() in RESERVED else name


_WORDS = """ADD ALL ALTER AND AS ASC BETWEEN BY CASE CHECK COLUMN COMMIT CREATE CROSS CURRENT DEFAULT DELETE
DESC DISTINCT DROP ELSE END EXISTS FILTER FOREIGN FROM FULL GROUP HAVING IN INDEX INNER INSERT INTO
IS JOIN LEFT LIKE LIMIT NOT NULL OF OFFSET ON OR ORDER OUTER OVER PARTITION PRIMARY RIGHT ROWS
SELECT SET TABLE THEN TO UNION UNIQUE UPDATE USING VALUES VIEW WHEN WHERE WINDOW WITH"""
RESERVED = frozenset(_WORDS.split())


def _free(database: sqlite3.Connection, name: str) -> str:
    taken = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
    number_ = 2
    wanted = name
    while name in taken:
        name, number_ = f"{wanted}_{number_}", number_ + 1
    return name


def _load(database: sqlite3.Connection, name: str, table: Table, *, told: bool) -> None:
    """Two readings: what the columns are, then their values. Notes go to the standard error, beside the result."""
    columns = [Column(column) for column in table.columns]
    for row in table.rows():
        for column, cell in zip(columns, row, strict=True):
            column.add(cell)
    names: list[str] = []
    for column in columns:
        base = identifier(column.name)
        names.append(next(n for n in (base, *(f"{base}_{i}" for i in range(2, 9999))) if n not in names))
    types = {"number": "NUMERIC", "date": "TEXT", "boolean": "INTEGER"}
    fields = ", ".join(f'"{n}" {types.get(c.kind, "TEXT")}' for n, c in zip(names, columns, strict=True))
    database.execute(f'CREATE TABLE "{name}" ({fields})')
    database.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(names))})', _typed(table, columns))
    database.commit()
    rows = database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
    if told:
        print(f"{name}: {rows} rows")
        for new, column in zip(names, columns, strict=True):
            print(f"  {new} {column.kind}" + (f'  (in the file: "{column.name}")' if new != column.name else ""))
    for note in [*table.notes, *met(table)] if told else met(table):
        print(f"note: {name}: {note}", file=sys.stderr)
    for new, column in zip(names, columns, strict=True):
        if column.misfit_count:
            lost = (
                f"{column.misfit_count} value(s) are no {column.kind} and became NULL: {', '.join(column.misfits[:3])}"
            )
            print(f"note: {name}.{new}: {lost}", file=sys.stderr)
        for doubt in column.doubts():
            print(f"note: {name}.{new}: {doubt}", file=sys.stderr)


def _typed(table: Table, columns: list[Column]) -> Iterator[list[object]]:
    kinds = [column.kind for column in columns]
    for row in table.rows():
        yield [_value(cell, kind, column) for cell, kind, column in zip(row, kinds, columns, strict=True)]


def _value(raw: object, kind: str, column: Column) -> object:
    value = cleaned(raw)
    if value is None:
        return None
    if kind == "number":
        amount = number(value, column.decimal)
        return int(amount) if amount is not None and amount.is_integer() and abs(amount) < 2**53 else amount
    if kind == "date":
        at = moment(value, column.day_first)
        return at and (at.strftime("%Y-%m-%d") if not (at.hour or at.minute or at.second) else at.isoformat(sep=" "))
    if kind == "boolean":
        return truth(value)
    return value if isinstance(value, str) else str(value)


class _Numbers:
    """An aggregate of SQLite over all the numbers that it is given."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.share = 0.5

    def step(self, value: object, share: float = 0.5) -> None:
        if isinstance(value, int | float):
            self.values.append(value)
            self.share = share

    def finalize(self) -> float | None:
        return percentile(sorted(self.values), self.share)


class _Deviation(_Numbers):
    def finalize(self) -> float | None:
        return statistics.stdev(self.values) if len(self.values) > 1 else None


def percentile(ordered: list[float], share: float) -> float | None:
    """Linear between the neighbours, as spreadsheets have it (PERCENTILE.INC)."""
    if not ordered:
        return None
    place = min(max(share, 0.0), 1.0) * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _answer(database: sqlite3.Connection, sql: str, output: Path | None, limit: int) -> None:
    database.create_aggregate("median", 1, _Numbers)  # type: ignore[arg-type]
    database.create_aggregate("percentile", 2, _Numbers)  # type: ignore[arg-type]
    database.create_aggregate("stddev", 1, _Deviation)  # type: ignore[arg-type]
    database.create_function(
        "regexp", 2, lambda pattern, text: text is not None and re.search(pattern, str(text)) is not None
    )
    for fold in (str.lower, str.upper):  # SQLite's own know only a to z
        database.create_function(
            fold.__name__, 1, lambda text, fold=fold: fold(text) if isinstance(text, str) else text
        )
    database.execute("PRAGMA query_only = ON")
    try:
        cursor = database.execute(sql)
        names = [each[0] for each in cursor.description or ()]
        rows = cursor.fetchall()
    except sqlite3.Error as error:
        if "readonly" in str(error):
            stop(
                "the tables cannot be changed", "use one SELECT (WITH ... SELECT for steps); the files stay as they are"
            )
        schema = "\n".join(row[0] for row in database.execute("SELECT sql FROM sqlite_master"))
        stop(f"SQL: {error}", f"there are these tables:\n{schema}")
    if output:
        _write(output, names, rows)
        print(f"{len(rows)} rows are in {output}")
    _show(names, rows, limit)


def _write(output: Path, names: list[str], rows: list[tuple[object, ...]]) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    if output.suffix == ".json":
        output.write_text(
            json.dumps([dict(zip(names, row, strict=True)) for row in rows], ensure_ascii=False, indent=1)
        )
    elif output.suffix == ".csv":
        with output.open("w", newline="", encoding="utf-8-sig") as file:
            csv.writer(file).writerows([names, *rows])
    else:
        stop(
            f"{output.name}: results are written as .csv or .json",
            "write a .csv, then make Excel of it with make_workbook.py",
        )


def _show(names: list[str], rows: list[tuple[object, ...]], limit: int) -> None:
    """As a Markdown table, which the model and a chat can both read."""
    print("| " + " | ".join(names) + " |")
    print("|" + "---|" * len(names))
    for row in rows[:limit]:
        print(
            "| "
            + " | ".join("NULL" if v is None else f"{v:.10g}" if isinstance(v, float) else str(v) for v in row)
            + " |"
        )
    if len(rows) > limit:
        print(f"[{limit} of {len(rows)} rows; --output FILE.csv has all]")


if __name__ == "__main__":
    main()
