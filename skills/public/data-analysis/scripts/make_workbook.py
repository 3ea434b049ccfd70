"""Writes a tidy Excel file from a small specification in JSON and the results of queries (CSV or JSON files).

  make_workbook.py spec.json --output /mnt/user-data/outputs/sales-2026.xlsx

{"title": "Sales 2026",
 "notes": ["Source: orders.xlsx, sheet Orders, 1 204 rows", "Cancelled orders are left out"],
 "sheets": [
   {"name": "By region", "data": "by_region.csv",
    "columns": {"revenue": {"label": "Revenue", "format": "money", "total": "sum", "mark": "bars"},
                "share": {"format": "percent"}, "day": {"format": "date"}},
    "chart": {"type": "column", "category": "region", "values": ["revenue"], "title": "Revenue by region"}}]}

data: a .csv or .json file beside the specification, or a list of objects. format: integer, decimal, money (symbol with
"symbol": "€"), percent, date, datetime, text, or one of Excel's own. total: sum, average, min, max, count. mark: bars,
scale, negative, duplicates. chart type: column, bar, line, pie, scatter. Formulas are written with their values, so
that previews show them; text that begins with = stays text.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

FORMATS = {
    "integer": "#,##0", "decimal": "#,##0.00", "money": "#,##0.00", "percent": "0.0%", "date": "yyyy-mm-dd",
    "datetime": "yyyy-mm-dd hh:mm", "text": "@",
}  # fmt: skip
TOTALS: dict[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "average": lambda v: sum(v) / len(v),
    "min": min,
    "max": max,
    "count": len,
}
CHARTS = ("column", "bar", "line", "pie", "scatter")
WIDEST = 60
MOST_ROWS = 1_048_000
FORBIDDEN = str.maketrans("", "", "[]:*?/\\'")


def stop(problem: str, fix: str) -> NoReturn:
    """Ends the script with one line that says what to do."""
    sys.exit(f"error: {problem}\n  fix: {fix}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec", type=Path, help="the specification, JSON as above")
    parser.add_argument("--output", type=Path, required=True, help="the .xlsx, below /mnt/user-data/outputs")
    args = parser.parse_args()
    try:
        spec = json.loads(args.spec.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        stop(f"{args.spec}: {error}", "write the specification as JSON; --help shows one")
    if not isinstance(spec, dict) or not spec.get("sheets"):
        stop("the specification has no sheets", 'give {"sheets": [{"name": ..., "data": ...}]}')
    if args.output.suffix != ".xlsx":
        stop(f"{args.output.name} does not end in .xlsx", "give such a name")
    args.output.parent.mkdir(parents=True, exist_ok=True)
    written = Workbook(args.output).write(spec, args.spec.parent)
    print("\n".join([f"{args.output} ({args.output.stat().st_size // 1024 + 1} KB)", *written]))


def rows_of(data: object, folder: Path) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows of a sheet's data."""
    if isinstance(data, str):
        path = Path(data) if Path(data).is_absolute() else folder / data
        if not path.is_file():
            stop(f"there is no file {path}", "write it with query.py --output first")
        if path.suffix == ".csv":
            with path.open(newline="", encoding="utf-8-sig") as file:
                names, *rows = csv.reader(file)
            return names, [[_cell(text) for text in row] for row in rows]
        data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, list) or not data or not all(isinstance(row, dict) for row in data):
        stop("a sheet's data is no list of objects, or is empty", "give a .csv, a .json or [{column: value}, ...]")
    names = list(dict.fromkeys(key for row in data for key in row))
    return names, [[row.get(name) for name in names] for row in data]


def _cell(text: str) -> object:
    """Numbers as query.py writes them; codes with leading zeros stay text."""
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        return text
    if (text.lstrip("-")[:1] == "0" and text.lstrip("-")[1:2].isdigit()) or not text.lstrip("-")[:1].isdigit():
        return text
    return (
        int(text) if text.lstrip("-").isdigit() and len(text) <= 15 else text if text.lstrip("-").isdigit() else value
    )


def moment(value: object) -> datetime | None:
    """Of an ISO date."""
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) and len(value) >= 10 else None
    except ValueError:
        return None


class Workbook:
    """One Excel file."""

    def __init__(self, path: Path) -> None:
        try:
            import xlsxwriter
        except ImportError:
            stop("xlsxwriter is not installed here", "deliver the CSV files instead and say so")
        options = {"strings_to_formulas": False, "strings_to_urls": False, "nan_inf_to_errors": True}
        self.book = xlsxwriter.Workbook(str(path), options)
        self.formats: dict[tuple[str, bool], Any] = {}
        self.head = self.book.add_format(
            {
                "bold": True,
                "bg_color": "#1F4E79",
                "font_color": "white",
                "text_wrap": True,
                "valign": "top",
                "border": 1,
                "border_color": "#D9D9D9",
            }
        )
        self.names: set[str] = set()

    def write(self, spec: dict[str, Any], folder: Path) -> list[str]:
        """Everything; returns a line on each sheet, to be compared with the query's result."""
        told = [self._sheet(sheet, folder) for sheet in spec["sheets"]]
        self._about(spec)
        self.book.close()
        return told

    def _format(self, kind: str, symbol: str = "", *, total: bool = False) -> Any:
        code = FORMATS.get(kind, kind)
        if symbol:
            code = f'{code} "{symbol}"'
        if (code, total) not in self.formats:
            look: dict[str, Any] = {"num_format": code} if code else {}
            self.formats[code, total] = self.book.add_format(look | ({"bold": True, "top": 1} if total else {}))
        return self.formats[code, total]

    def _sheet(self, sheet: dict[str, Any], folder: Path) -> str:
        names, rows = rows_of(sheet.get("data"), folder)
        if len(rows) > MOST_ROWS:
            stop(f"{len(rows)} rows are more than a sheet holds", "aggregate them, or deliver a CSV")
        wishes = sheet.get("columns", {})
        if unknown := set(wishes) - set(names):
            stop(f"columns {sorted(unknown)} are not in the data", f"there are: {', '.join(names)}")
        page = self.book.add_worksheet(self._free(str(sheet.get("name", "Data"))))
        told = []
        for at, name in enumerate(names):
            values = [row[at] if at < len(row) else None for row in rows]
            told += self._column(page, at, name, values, wishes.get(name, {}))
        page.freeze_panes(1, 1 if len(names) > 6 else 0)
        page.autofilter(0, 0, max(len(rows), 1), len(names) - 1)
        page.set_landscape()
        page.fit_to_pages(1, 0)
        page.repeat_rows(0)
        if chart := sheet.get("chart"):
            self._chart(page, chart, names, len(rows))
        return f"{page.get_name()}: {len(rows)} rows, {len(names)} columns" + (f"; {', '.join(told)}" if told else "")

    def _free(self, name: str) -> str:
        base = name.translate(FORBIDDEN).strip()[:28] or "Data"
        found = next(n for n in (base, *(f"{base} {i}" for i in range(2, 99))) if n.lower() not in self.names)
        self.names.add(found.lower())
        return found

    def _column(self, page: Any, at: int, name: str, values: list[Any], wish: dict[str, Any]) -> list[str]:
        kind = wish.get("format") or _usual(name, values)
        format_ = self._format(kind, wish.get("symbol", ""))
        label = wish.get("label", name)
        page.write_string(0, at, label, self.head)
        for line, value in enumerate(values, 1):
            if kind in ("date", "datetime") and (when := moment(value)):
                page.write_datetime(line, at, when, format_)
            elif isinstance(value, bool):
                page.write_boolean(line, at, value)
            elif isinstance(value, int | float) and kind != "text":
                page.write_number(line, at, value, format_)
            elif value is not None:
                page.write_string(line, at, str(value), format_ if kind == "text" else None)
        longest = max([len(label), *(_shown_length(value, kind) for value in values[:2000])])
        page.set_column(at, at, wish.get("width", min(max(longest + 3, 9), WIDEST)))
        self._mark(page, at, len(values), wish.get("mark"))
        return self._total(page, at, values, wish, kind) if wish.get("total") else []

    def _total(self, page: Any, at: int, values: list[Any], wish: dict[str, Any], kind: str) -> list[str]:
        """Below the data and an empty row, so that filters and pivot tables do not count it."""
        how = wish["total"]
        numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
        if how not in TOTALS:
            stop(f"total {how!r} is unknown", f"use one of: {', '.join(TOTALS)}")
        if not numbers:
            stop(f"column {wish.get('label', at)!r} has no numbers to total", "leave out total, or fix the query")
        result = TOTALS[how](numbers)
        column = _letter(at)
        code = {"sum": "109", "average": "101", "min": "105", "max": "104", "count": "102"}[how]
        formula = f"=SUBTOTAL({code},{column}2:{column}{len(values) + 1})"
        page.write_formula(len(values) + 2, at, formula, self._format(kind, wish.get("symbol", ""), total=True), result)
        if at > 0:
            page.write_string(
                len(values) + 2, 0, "Total" if how == "sum" else how.capitalize(), self._format("", total=True)
            )
        return [f"{how} of column {column} = {result:.10g}"]

    def _mark(self, page: Any, at: int, rows: int, mark: str | None) -> None:
        red = self.book.add_format({"font_color": "#C00000"})
        looks: dict[str, dict[str, Any]] = {
            "bars": {"type": "data_bar", "bar_color": "#9DC3E6", "bar_solid": True},
            "scale": {"type": "3_color_scale", "min_color": "#F8CBAD", "mid_color": "#FFFFFF", "max_color": "#9DC3E6"},
            "negative": {"type": "cell", "criteria": "<", "value": 0, "format": red},
            "duplicates": {"type": "duplicate", "format": self.book.add_format({"bg_color": "#FFE699"})},
        }  # fmt: skip
        if mark is None:
            return
        if mark not in looks:
            stop(f"mark {mark!r} is unknown", f"use one of: {', '.join(looks)}")
        page.conditional_format(1, at, max(rows, 1), at, looks[mark])

    def _chart(self, page: Any, wish: dict[str, Any], names: list[str], rows: int) -> None:
        wanted = [wish.get("category"), *wish.get("values", [])]
        if wish.get("type") not in CHARTS or len(wanted) < 2 or not set(wanted) <= set(names):
            stop(
                f"the chart {wish} does not fit the data",
                f"give type ({', '.join(CHARTS)}), category and values of: {', '.join(names)}",
            )
        chart = self.book.add_chart({"type": wish["type"]})
        for value in wish["values"]:
            at, category = names.index(value), names.index(wish["category"])
            chart.add_series({
                "name": [page.get_name(), 0, at],
                "categories": [page.get_name(), 1, category, rows, category],
                "values": [page.get_name(), 1, at, rows, at],
            })  # fmt: skip
        chart.set_title({"name": wish.get("title", ""), "name_font": {"size": 12}})
        if len(wish["values"]) == 1 and wish["type"] != "pie":
            chart.set_legend({"none": True})
        page.insert_chart(1, len(names) + 1, chart, {"x_scale": 1.3, "y_scale": 1.3})

    def _about(self, spec: dict[str, Any]) -> None:
        """Where the figures come from: a table that travels without that is believed or doubted for no reason."""
        page = self.book.add_worksheet(self._free("About"))
        page.set_column(0, 0, 110)
        page.write_string(0, 0, str(spec.get("title", "Result")), self.book.add_format({"bold": True, "font_size": 14}))
        wrap = self.book.add_format({"text_wrap": True, "valign": "top"})
        for line, note in enumerate(spec.get("notes", []), 2):
            page.write_string(line, 0, str(note), wrap)
        if not spec.get("notes"):
            print("note: no notes are given; say source, period, what was left out and how figures were made")


def _usual(name: str, values: list[Any]) -> str:
    """A format by what is in the column; years and ids get no signs between their thousands."""
    filled = [value for value in values if value is not None]
    if filled and all(moment(value) for value in filled):
        return "date" if all(len(value) == 10 for value in filled) else "datetime"
    if not filled or not all(isinstance(value, int | float) for value in filled):
        return ""
    if name.lower() in ("id", "year", "jahr") or name.lower().endswith(("_id", "_year")):
        return "0"
    return "integer" if all(isinstance(value, int) for value in filled) else "decimal"


def _shown_length(value: object, kind: str) -> int:
    if value is None:
        return 0
    return len(f"{value:,.2f}") if isinstance(value, float) else len(str(value)) + 2 * (kind == "money")


def _letter(index: int) -> str:
    name = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        name = chr(65 + rest) + name
    return name


if __name__ == "__main__":
    main()
