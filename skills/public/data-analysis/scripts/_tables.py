"""Opens what people send as tables: CSV and its relatives, Excel, JSON records; used by the scripts beside it.

Every table can be read again and again, row by row, so that a file may be larger than the memory. What had to be
guessed (encoding, separator, where the header is) is told in its notes.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from _form import SAMPLE_ROWS, guess_encoding, guess_separator, header, line, stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SAMPLE_BYTES = 1 << 18
TEXT_ENDINGS = {".csv", ".tsv", ".tab", ".txt"}
NOT_READ = {
    ".parquet": "there is no reader for Parquet here: ask for a CSV or Excel export",
    ".ods": "open it in a spreadsheet program and save it as .xlsx",
    ".numbers": "export it from Numbers as .xlsx or .csv",
    ".pdf": "take its tables out first: python3 -c with pdfplumber, then save them as CSV",
}
csv.field_size_limit(1 << 24)

Row = list[object]


@dataclass
class Table:
    """One table of a file. rows() begins anew each time; problems counts what the last full reading met."""

    name: str
    columns: list[str]
    rows: Callable[[], Iterator[Row]]
    notes: list[str] = field(default_factory=list)
    problems: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Wishes:
    """What the caller knows better than guessing does. header: its line, counted from 1; 0 for none."""

    encoding: str | None = None
    separator: str | None = None
    header: int | None = None
    sheet: str | None = None
    keep_total: bool = False
    """Whether a last row that says "Total" is data like the others."""


_TOTALS = "total totals sum summe gesamt subtotal totale somme 合计 总计 小计"
TOTALS = frozenset([*_TOTALS.split(), "grand total"])


def open_tables(path: Path, wishes: Wishes = Wishes()) -> list[Table]:
    """All tables of a file, empty ones left out."""
    if not path.is_file():
        stop(f"there is no file {path}", "look with: ls /mnt/user-data/uploads /mnt/user-data/workspace")
    ending = path.suffixes[-2] if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix
    ending = ending.lower()
    if ending in NOT_READ:
        stop(f"{path.name} cannot be read", NOT_READ[ending])
    if ending in (".xlsx", ".xlsm", ".xls"):
        return _excel_tables(path, wishes, old=ending == ".xls")
    if ending in (".json", ".jsonl", ".ndjson"):
        return [_json_table(path)]
    if ending not in TEXT_ENDINGS:
        stop(
            f"{path.name}: {ending or 'no ending'} is not a kind of table",
            "give csv, tsv, txt, xlsx, xls, json or jsonl",
        )
    return [_text_table(path, wishes)]


def _read(path: Path, encoding: str) -> io.TextIOBase:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding=encoding, errors="replace", newline="")
    return path.open(encoding=encoding, errors="replace", newline="")


def _text_table(path: Path, wishes: Wishes) -> Table:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        head = file.read(SAMPLE_BYTES)
    if not head.strip():
        stop(f"{path.name} is empty", "ask for the file again")
    if head[:4] == b"PK\3\4":
        stop(
            f"{path.name} is a zip or Excel file with the wrong ending",
            f"copy it to a name that ends in .xlsx: cp '{path}' /mnt/user-data/workspace/data.xlsx",
        )
    if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")) and not wishes.encoding:
        stop(f"{path.name} is no text", "find out what it is: file and head -c 64; ask for a CSV or Excel export")
    encoding = wishes.encoding or guess_encoding(head)
    sample = codecs.getincrementaldecoder(encoding)("replace").decode(head)
    if len(head) == SAMPLE_BYTES:
        sample = sample[: sample.rfind("\n") + 1] or sample
    separator = wishes.separator or guess_separator(sample)
    first = list(islice(csv.reader(io.StringIO(sample, newline=""), delimiter=separator), SAMPLE_ROWS))
    start, columns, note = header([[*row] for row in first], wishes.header)
    shown = {"\t": "tab"}.get(separator, separator)
    notes = [f"encoding {encoding}, separator {shown}", *note]

    def lines() -> Iterator[Row]:
        with _read(path, encoding) as file:
            for row in csv.reader(file, delimiter=separator):
                yield [*row]

    return _table(
        path.name.partition(".")[0], columns, _Source(lines, start, ragged=True, keep_total=wishes.keep_total), notes
    )


@dataclass(frozen=True)
class _Source:
    """Where rows come from. ragged: a row that is shorter than the header is a fault (Excel leaves out empty cells)."""

    lines: Callable[[], Iterator[Row]]
    start: int = 0
    ragged: bool = False
    keep_total: bool = False


def _table(name: str, columns: list[str], source: _Source, notes: list[str]) -> Table:
    problems: Counter[str] = Counter()

    def rows() -> Iterator[Row]:
        problems.clear()
        held: Row | None = None
        for row in _even(source, len(columns), problems):
            if held is not None:
                yield held
            held = row
        if held is not None and not source.keep_total and is_total(held):
            problems[f"last row left out, because it is a total ({line(held)}); --keep-total keeps it"] = 1
        elif held is not None:
            yield held

    return Table(name, columns, rows, notes, problems)


def is_total(row: Row) -> bool:
    """Whether it sums up the rows above it."""
    return any(isinstance(cell, str) and cell.strip().strip(":").lower() in TOTALS for cell in row)


def _even(source: _Source, width: int, problems: Counter[str]) -> Iterator[Row]:
    """The rows, each as wide as the header; empty ones left out."""
    for number, row in enumerate(islice(source.lines(), source.start, None), source.start + 1):
        if not any(cell not in (None, "") for cell in row):
            problems["empty lines left out"] += 1
            continue
        if any(cell not in (None, "") for cell in row[width:]):
            if "lines with more fields than columns, whose rest was cut" not in problems:
                problems[f"line {number} is the first that is too long"] = 1
            problems["lines with more fields than columns, whose rest was cut"] += 1
        elif len(row) < width and source.ragged:
            problems["lines with fewer fields than columns, filled up as missing"] += 1
        yield row if len(row) == width else [*row[:width], *[None] * (width - len(row))]


def met(table: Table) -> list[str]:
    """What the last full reading met, in sentences."""
    return [
        what if what.startswith(("line ", "last ")) else f"{count} {what}" for what, count in table.problems.items()
    ]


def _excel_tables(path: Path, wishes: Wishes, *, old: bool) -> list[Table]:
    from _excel import sheets_of

    tables = []
    sheets = sheets_of(path, old=old)
    names = [sheet.name for sheet in sheets]
    if wishes.sheet is not None and wishes.sheet not in names:
        stop(f"{path.name} has no sheet {wishes.sheet!r}", f"use one of: {', '.join(names)}")
    for sheet in sheets:
        if wishes.sheet in (None, sheet.name):
            start, columns, note = header(list(islice(sheet.rows(), SAMPLE_ROWS)), wishes.header)
            if columns:
                source = _Source(sheet.rows, start, keep_total=wishes.keep_total)
                tables.append(_table(sheet.name, columns, source, [*sheet.notes, *note]))
    return tables


def _json_table(path: Path) -> Table:
    text = path.read_text(encoding="utf-8-sig")
    try:
        loaded = (
            json.loads(text)
            if path.suffix == ".json"
            else [json.loads(line) for line in text.splitlines() if line.strip()]
        )
    except ValueError as error:
        stop(f"{path.name} is not valid JSON: {error}", "look at that place with read_file")
    if isinstance(loaded, dict):
        loaded = next((value for value in loaded.values() if isinstance(value, list)), [loaded])
    records = [record for record in loaded if isinstance(record, dict)]
    if not records:
        stop(
            f"{path.name} holds no list of objects",
            "reshape it with a few lines of Python to [{column: value}, ...] first",
        )
    columns = list(dict.fromkeys(key for record in records for key in record))
    flat = (dict, list)

    def lines() -> Iterator[Row]:
        for record in records:
            values = (record.get(column) for column in columns)
            yield [json.dumps(value, ensure_ascii=False) if isinstance(value, flat) else value for value in values]

    return _table(path.stem, columns, _Source(lines, keep_total=True), [])
