"""Tells what is in a table file before anybody computes with it: types, gaps, duplicates, outliers, doubts.

Prints a report in Markdown; with --json also writes every figure to a file.
"""

from __future__ import annotations

import argparse
import json
from datetime import datetime
from pathlib import Path
from typing import Any

from _columns import Column, Measures
from _tables import Table, Wishes, met, open_tables
from _values import cleaned

MOST_HASHED = 3_000_000
MOST_SHOWN = 60
"""Columns of a table in the report."""
FEW = 30
"""A column with at most so many distinct values is a category."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "file", type=Path, help="csv, tsv, txt, xlsx, xlsm, xls, json or jsonl, also .gz of a text file"
    )
    parser.add_argument("--sheet", help="only this sheet of an Excel file")
    parser.add_argument("--encoding", help="if the guess is wrong: cp1252, gb18030, ...")
    parser.add_argument("--separator", help="if the guess is wrong, as in ';' (a tab: $'\\t')")
    parser.add_argument("--header-row", type=int, help="the header's line, from 1; 0 when there is none")
    parser.add_argument("--keep-total", action="store_true", help="count a last row that says Total like the others")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    args = parser.parse_args()
    wishes = Wishes(args.encoding, args.separator, args.header_row, args.sheet, args.keep_total)
    profiles = [profiled(table) for table in open_tables(args.file, wishes)]
    if not profiles:
        print(f"{args.file.name} holds no table: all its sheets are empty.")
    for profile in profiles:
        print(in_markdown(profile))
    if args.json:
        args.json.write_text(json.dumps(profiles, indent=1, ensure_ascii=False, default=str))
        print(f"All figures are in {args.json}")


def profiled(table: Table) -> dict[str, Any]:
    """All figures of a table, from two readings: what its columns are, then their values."""
    columns = [Column(name) for name in table.columns]
    seen: set[int] = set()
    rows = repeated = 0
    for row in table.rows():
        rows += 1
        key = hash(tuple(row))
        if key in seen:
            repeated += 1
        elif len(seen) < MOST_HASHED:
            seen.add(key)
        for column, cell in zip(columns, row, strict=True):
            column.add(cell)
    measures = [Measures(column) for column in columns]
    measured = [i for i, column in enumerate(columns) if column.kind in ("number", "date")]
    for row in table.rows() if measured else ():
        for i in measured:
            measures[i].add(row[i])
    notes = [*table.notes, *met(table)]
    return {
        "table": table.name,
        "rows": rows,
        "notes": notes,
        "duplicate_rows": repeated,
        "duplicates_checked": "all rows" if rows - repeated <= MOST_HASHED else f"against the first {MOST_HASHED} rows",
        "keys": [c.name for c in columns if rows and not c.too_many and c.count == rows == len(c.values)],
        "columns": [described(column, of, rows) for column, of in zip(columns, measures, strict=True)],
    }


def described(column: Column, measures: Measures, rows: int) -> dict[str, Any]:
    """One column's part of the profile."""
    numbers, moments = measures.numbers, measures.moments
    found: dict[str, Any] = {
        "name": column.name,
        "kind": column.kind,
        "missing": rows - column.count,
        "distinct": None if column.too_many else len(column.values),
        "doubts": [*column.doubts(), *_oddities(column)],
    }
    if column.misfit_count:
        found["doubts"].append(f"{column.misfit_count} value(s) are no {column.kind}: {', '.join(column.misfits[:3])}")
    if column.kind == "number" and numbers.count:
        low, middle, high = numbers.quartiles()
        outside, below, above = numbers.outliers()
        found |= {
            "min": numbers.least, "lower_quartile": low, "median": middle, "mean": numbers.mean,
            "upper_quartile": high, "max": numbers.most, "sum": numbers.total, "deviation": numbers.deviation,
            "zeros": numbers.zeros, "negative": numbers.negative, "outliers": outside, "fences": [below, above],
        }  # fmt: skip
    elif column.kind == "date" and moments.least and moments.most:
        found |= {"first": moments.least, "last": moments.most, "missing_months": moments.missing_months()}
        if moments.most > datetime.now():
            found["doubts"].append(f"dates in the future, up to {moments.most:%Y-%m-%d}")
    if not column.too_many and column.kind in ("text", "boolean", "number"):
        most = column.values.most_common(5)
        if len(column.values) <= FEW or (most and most[0][1] > 1 and column.kind == "text"):
            found["top"] = {str(value)[:40]: count for value, count in most}
    return found


def _oddities(column: Column) -> list[str]:
    """Values that are one thing to a person and two to a program."""
    found = []
    if column.padded:
        found.append(f"{column.padded} value(s) have spaces around them")
    if column.kind == "text" and not column.too_many:
        spellings: dict[str, list[str]] = {}
        for value in column.values:
            spellings.setdefault(" ".join(str(cleaned(value)).casefold().split()), []).append(str(value))
        several = [names for names in spellings.values() if len(names) > 1]
        if several:
            found.append(f"{len(several)} value(s) are spelled in several ways: {' / '.join(several[0][:3])}")
    if column.count > 20 and not column.too_many and len(column.values) == 1:
        found.append("always the same value")
    return found


def in_markdown(profile: dict[str, Any]) -> str:
    """The report, short enough to be read in one go."""
    rows = profile["rows"]
    lines = [f"## {profile['table']}: {rows} rows, {len(profile['columns'])} columns"]
    lines += [f"- {note}" for note in profile["notes"]]
    if profile["duplicate_rows"]:
        lines.append(
            f"- {profile['duplicate_rows']} row(s) repeat an earlier one (checked {profile['duplicates_checked']})"
        )
    lines.append(f"- could identify a row: {', '.join(profile['keys'][:5]) or 'no single column'}")
    lines += ["", "| column | kind | missing | distinct | values |", "|---|---|---|---|---|"]
    for column in profile["columns"][:MOST_SHOWN]:
        missing = f"{column['missing']} ({column['missing'] / rows:.0%})" if column["missing"] else "0"
        distinct = "over 50000" if column["distinct"] is None else column["distinct"]
        lines.append(
            f"| {_cell(column['name'])} | {column['kind']} | {missing} | {distinct} | {_cell(_values(column))} |"
        )
    if len(profile["columns"]) > MOST_SHOWN:
        lines.append(f"\n[{MOST_SHOWN} of {len(profile['columns'])} columns; --json FILE has all]")
    doubts = [f"- {column['name']}: {doubt}" for column in profile["columns"] for doubt in column["doubts"]]
    outside = [
        f"- {c['name']}: {c['outliers']} value(s) far outside ({_figure(c['fences'][0])} to {_figure(c['fences'][1])})"
        for c in profile["columns"]
        if c.get("outliers")
    ]
    gaps = [
        f"- {c['name']}: no rows in {', '.join(c['missing_months'][:6])}"
        for c in profile["columns"]
        if c.get("missing_months")
    ]
    if doubts or outside or gaps:
        lines += ["", "To settle before computing:", *doubts, *outside, *gaps]
    return "\n".join(lines) + "\n"


def _values(column: dict[str, Any]) -> str:
    if "median" in column:
        least, median, mean, most, total = (_figure(column[key]) for key in ("min", "median", "mean", "max", "sum"))
        text = f"{least} … median {median}, mean {mean} … {most}, sum {total}"
        return text + (f", {column['negative']} negative" if column["negative"] else "")
    if "first" in column:
        return f"{column['first']:%Y-%m-%d} … {column['last']:%Y-%m-%d}"
    return ", ".join(f"{value} ({count})" for value, count in column.get("top", {}).items())


def _figure(value: float) -> str:
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.2f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    main()
