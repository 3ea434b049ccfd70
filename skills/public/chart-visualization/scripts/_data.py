"""From a specification and its data file to what is drawn: categories, series, points; called by draw_chart.py."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

AGGREGATES: dict[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "mean": fmean,
    "median": median,
    "count": len,
    "min": min,
    "max": max,
}
OTHERS = "Other"

Number = float | None


def stop(problem: str, fix: str) -> NoReturn:
    """Ends the script with one line that says what to do."""
    sys.exit(f"error: {problem}\n  fix: {fix}")


@dataclass
class Picture:
    """What is drawn. x: names, numbers or dates, one for each value of each series. points: of a scatter. notes: what
    the person who reads the chart should be told."""

    x: list[Any] = field(default_factory=list)
    series: dict[str, list[Number]] = field(default_factory=dict)
    points: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    scale: str = "names"
    notes: list[str] = field(default_factory=list)


def records_of(data: object, folder: Path) -> list[dict[str, Any]]:
    """Rows as objects, from the specification itself or from a CSV, TSV, JSON or Excel file."""
    if isinstance(data, list):
        records = data
    elif isinstance(data, str):
        path = Path(data) if Path(data).is_absolute() else folder / data
        if not path.is_file():
            stop(f"there is no file {path}", "give data as a path, absolute or beside the specification")
        records = _file(path)
    else:
        stop("the specification has no data", 'give "data": "file.csv" or a list of objects')
    if not records or not all(isinstance(record, dict) for record in records):
        stop("the data has no rows", "check the file with head, or the query that made it")
    return records


def _file(path: Path) -> list[dict[str, Any]]:
    ending = path.suffix.lower()
    if ending == ".json":
        loaded: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8-sig"))
        return loaded
    if ending in (".csv", ".tsv"):
        with path.open(newline="", encoding="utf-8-sig") as file:
            return list(csv.DictReader(file, delimiter="\t" if ending == ".tsv" else ","))
    if ending == ".xlsx":
        import openpyxl

        head, *rows = (
            openpyxl.load_workbook(path, read_only=True, data_only=True).worksheets[0].iter_rows(values_only=True)
        )
        return [dict(zip(map(str, head), row, strict=False)) for row in rows if any(cell is not None for cell in row)]
    stop(f"{path.name} is not csv, tsv, json or xlsx", "convert it first: the skill data-analysis reads more kinds")


def number(value: object) -> Number:
    """The number in a cell; None where there is none. Signs between thousands as in 1,234.5 are understood."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value) if value == value else None
    text = str(value).strip()
    if re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?", text):
        text = text.replace(",", "")
    try:
        return float(text.rstrip("%")) if text and text.lower() not in ("nan", "inf", "-inf") else None
    except ValueError:
        return None


def column(records: list[dict[str, Any]], name: object, what: str) -> str:
    """The name, if the data has it."""
    if not isinstance(name, str) or not any(name in record for record in records):
        stop(f"{what} is {name!r}, which is no column", f"the columns are: {', '.join(map(str, records[0]))}")
    return name


def values_of(records: list[dict[str, Any]], name: str) -> list[Number]:
    """One column's numbers; a column with text in it is an error, for a chart would leave it out silently."""
    found = [number(record.get(name)) for record in records]
    wrong = [
        record[name]
        for record, value in zip(records, found, strict=True)
        if value is None and record.get(name) not in (None, "")
    ]
    if wrong:
        stop(
            f"{name}: {len(wrong)} value(s) are no numbers, such as {str(wrong[0])[:30]!r}",
            "clean them first, with query.py of data-analysis",
        )
    return found


def measured(spec: dict[str, Any], records: list[dict[str, Any]]) -> Picture:
    """For kinds that have one value for each name or time: bars, lines, areas, pies, heat maps."""
    x = column(records, spec.get("x"), "x")
    wanted = spec.get("y") if isinstance(spec.get("y"), list) else [spec.get("y")]
    how = spec.get("aggregate")
    if how == "count" and wanted == [None]:
        wanted = [x]
    names = [column(records, name, "y") for name in wanted or []]
    by = column(records, spec["series"], "series") if spec.get("series") else None
    if by and len(names) > 1:
        stop("series and several y at once", "give one y with series, or several y without")
    cells: dict[tuple[Any, str], list[float]] = defaultdict(list)
    order: dict[Any, None] = {}
    keys: dict[str, None] = {}
    for name in names:
        numbers = [1.0] * len(records) if how == "count" else values_of(records, name)
        for record, value in zip(records, numbers, strict=True):
            at, key = _text(record.get(x)), _text(record.get(by)) if by else name
            order.setdefault(at)
            keys.setdefault(key)
            if value is not None:
                cells[at, key].append(value)
    several = next((at for at, found in cells.items() if len(found) > 1), None)
    if several and how not in AGGREGATES:
        stop(
            f"{several[0]!r} has several values",
            f'give "aggregate": one of {", ".join(AGGREGATES)}; or "series" if a column parts them',
        )
    one: Callable[[list[float]], float] = AGGREGATES.get(str(how), sum)
    labels = list(order)
    series = {key: [float(one(cells[at, key])) if cells.get((at, key)) else None for at in labels] for key in keys}
    return _ordered(spec, _scaled(Picture(x=labels, series=series)))


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == value.min.time() else value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value if value not in (None, "") else "(none)").strip()


def _scaled(picture: Picture) -> Picture:
    """Names that are all dates or all numbers become such, in order."""
    for scale, read in (("time", moment), ("numbers", number)):
        found = [read(label) for label in picture.x]
        if found and None not in found:
            order = sorted(range(len(found)), key=lambda i: found[i])  # type: ignore[arg-type, return-value]
            picture.scale = scale
            picture.x = [found[i] for i in order]
            picture.series = {name: [values[i] for i in order] for name, values in picture.series.items()}
            return picture
    return picture


def moment(text: object) -> datetime | None:
    """Of an ISO date, a month (2026-03) or a quarter (2026-Q1, which is its first day)."""
    text = str(text)
    if found := re.fullmatch(r"(\d{4})-?Q([1-4])", text):
        return datetime(int(found[1]), 3 * int(found[2]) - 2, 1)
    if re.fullmatch(r"\d{4}-\d{2}", text):
        text += "-01"
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None) if re.match(r"\d{4}-\d{2}-\d{2}", text) else None
    except ValueError:
        return None


def _ordered(spec: dict[str, Any], picture: Picture) -> Picture:
    """Names by their size, the largest first, unless they have an order of their own; the small ones put together."""
    if picture.scale != "names":
        return picture
    sums = [sum(values[i] or 0 for values in picture.series.values()) for i in range(len(picture.x))]
    order = list(range(len(picture.x)))
    sort = spec.get("sort", "none" if spec["type"] in ("line", "area", "heatmap") or _has_order(picture.x) else "value")
    if sort == "value":
        order.sort(key=lambda i: -sums[i])
    elif sort == "name":
        order.sort(key=lambda i: str(picture.x[i]))
    elif sort != "none":
        stop(f"sort {sort!r} is unknown", "use value, name or none")
    top = spec.get("top")
    rest = order[top:] if isinstance(top, int) else []
    kept = order[: len(order) - len(rest)]
    picture.series = {
        name: [values[i] for i in kept]
        + ([sum(values[i] or 0 for i in rest)] if len(rest) > 1 else [values[i] for i in rest])
        for name, values in picture.series.items()
    }
    picture.x = [picture.x[i] for i in kept] + ([OTHERS] if len(rest) > 1 else [picture.x[i] for i in rest])
    if len(rest) > 1:
        picture.notes.append(f"{len(rest)} smaller ones are put together as {OTHERS}")
    return picture


ORDERED = re.compile(
    r"(?i)(jan|feb|m[aä]r|apr|ma[yi]|jun|jul|aug|sep|o[ck]t|nov|de[cz]|mon|tue|wed|thu|fri|sat|sun|mo|di|mi|do|fr|sa|so|q[1-4]|"
    r"[<>≤≥]?\s*\d+\s*[-–+].*|周.|星期.|\d+月)"
)


def _has_order(labels: list[str]) -> bool:
    """Months, weekdays, quarters and classes such as 18-24 stand as they were given."""
    return all(ORDERED.match(label) for label in labels)


def scattered(spec: dict[str, Any], records: list[dict[str, Any]]) -> Picture:
    """Pairs of numbers, by series where one is named."""
    x, y = column(records, spec.get("x"), "x"), column(records, spec.get("y"), "y")
    by = column(records, spec["series"], "series") if spec.get("series") else None
    picture = Picture(scale="numbers")
    for record, a, b in zip(records, values_of(records, x), values_of(records, y), strict=True):
        if a is not None and b is not None:
            picture.points.setdefault(_text(record.get(by)) if by else y, []).append((a, b))
    left = len(records) - sum(map(len, picture.points.values()))
    if left:
        picture.notes.append(f"{left} rows without both values are not shown")
    return picture


def distributed(spec: dict[str, Any], records: list[dict[str, Any]]) -> Picture:
    """All values of y, by x (or series) where one is named: histograms and box plots."""
    y = column(records, spec.get("y"), "y")
    by = spec.get("x") or spec.get("series")
    by = column(records, by, "x") if by else None
    picture = Picture(scale="numbers")
    missing = 0
    for record, value in zip(records, values_of(records, y), strict=True):
        if value is None:
            missing += 1
        else:
            picture.series.setdefault(_text(record.get(by)) if by else y, []).append(value)
    if missing:
        picture.notes.append(f"{missing} rows without a value are left out")
    return picture
