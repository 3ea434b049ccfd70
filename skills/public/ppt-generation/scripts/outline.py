"""The outline of a deck as JSON: read, checked as a whole, every problem named with its slide. Used by build.py."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import theme
from PIL import Image, UnidentifiedImageError

if TYPE_CHECKING:
    from pathlib import Path

MOST_POINTS, MOST_WORDS, MOST_NUMBERS = 6, 18, 4
MOST_ROWS, MOST_COLUMNS, MOST_SERIES, MOST_SLICES = 10, 7, 6, 6
CHARTS = ("column", "bar", "line", "pie", "stacked_column", "stacked_bar", "area")
HIGHLIGHTS = ("bar", "column")
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff")

Slide = dict[str, Any]

COMMON = {"layout", "title", "notes"}
LAYOUTS: dict[str, tuple[set[str], set[str]]] = {
    "title": ({"title"}, {"subtitle"}),
    "section": ({"title"}, {"text"}),
    "bullets": ({"title", "points"}, {"source"}),
    "two_columns": ({"title", "left", "right"}, {"source"}),
    "table": ({"title", "columns", "rows"}, {"source", "alt"}),
    "chart": ({"title", "chart"}, {"points", "source", "alt"}),
    "picture": ({"title", "picture", "alt"}, {"points", "caption", "source"}),
    "numbers": ({"title", "numbers"}, {"source"}),
    "quote": ({"quote", "by"}, set()),
    "closing": ({"title"}, {"points", "text"}),
}
"""What each layout needs, and what it may have besides."""
DECK = {"title", "author", "language", "theme", "footer", "slides"}


class BadOutline(Exception):
    """problems: a line each, with the slide and what to do."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def read(path: Path) -> tuple[dict[str, Any], theme.Theme]:
    """Raises BadOutline."""
    try:
        deck = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadOutline([f"{path} does not exist"]) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadOutline([f"{path} is not JSON: {error}"]) from None
    if not isinstance(deck, dict) or not isinstance(deck.get("slides"), list) or not deck["slides"]:
        raise BadOutline(['the outline has to be an object with "slides", a list of at least one slide'])
    look, problems = theme.chosen(deck.get("theme", theme.DEFAULT))
    problems += [f'the deck: "{key}" is not known; there are {", ".join(sorted(DECK))}' for key in deck.keys() - DECK]
    for number, slide in enumerate(deck["slides"], 1):
        problems += [f"slide {number}: {problem}" for problem in problems_of(slide, path.parent)]
    if problems:
        raise BadOutline(problems)
    return deck, look


def problems_of(slide: Any, folder: Path) -> list[str]:
    """Of one slide. folder: where pictures with relative paths are looked for."""
    if not isinstance(slide, dict) or slide.get("layout") not in LAYOUTS:
        return [f'needs a "layout": one of {", ".join(LAYOUTS)}']
    needed, optional = LAYOUTS[slide["layout"]]
    problems = [f'{slide["layout"]} needs "{key}"' for key in sorted(needed) if not slide.get(key)]
    problems += [
        f'{slide["layout"]} has no "{key}"; it may have {", ".join(sorted(needed | optional | COMMON))}'
        for key in sorted(slide.keys() - needed - optional - COMMON)
    ]
    if problems:
        return problems
    problems += _points(slide.get("points", []), "points")
    for side in ("left", "right"):
        if side in slide:
            problems += _side(slide[side], side)
    detail = {"table": _table, "chart": _chart, "numbers": _numbers}.get(slide["layout"])
    if detail is not None:
        problems += detail(slide)
    if slide["layout"] == "picture":
        problems += _picture(slide, folder)
    return problems


def text_of(point: Any) -> tuple[str, list[str]]:
    """A point and the points below it."""
    if isinstance(point, dict):
        below = point.get("sub", [])
        return str(point.get("text", "")), [str(each) for each in below] if isinstance(below, list) else []
    return str(point), []


def _points(points: Any, name: str) -> list[str]:
    if not isinstance(points, list):
        return [f'"{name}" has to be a list of texts, or of objects with "text" and "sub"']
    problems = []
    if len(points) > MOST_POINTS:
        problems.append(f"{name}: {len(points)} are too many for one slide, {MOST_POINTS} the most: split the slide")
    for point in points:
        text, below = text_of(point)
        if isinstance(point, dict) and not isinstance(point.get("sub", []), list):
            problems.append(f'{name}: "sub" has to be a list of texts')
        if not text.strip():
            problems.append(f'{name}: a point without text; give a text, or an object with "text" and "sub"')
        problems += [
            f'{name}: "{each[:40]}..." has {words(each)} words, {MOST_WORDS} the most: put the rest into the notes'
            for each in (text, *below)
            if words(each) > MOST_WORDS
        ]
    return problems


def words(text: str) -> int:
    """Two Chinese signs are counted as a word."""
    squares = sum("\u2e80" <= char <= "\ua4cf" for char in text)
    rest = "".join(" " if "\u2e80" <= char <= "\ua4cf" else char for char in text)
    return (squares + 1) // 2 + len([word for word in rest.split() if any(char.isalnum() for char in word)])


def _side(side: Any, name: str) -> list[str]:
    if not isinstance(side, dict) or not side.get("points") or side.keys() - {"heading", "points"}:
        return [f'{name}: has to be an object with "points", and "heading" if it has one']
    return _points(side["points"], f"{name}.points")


def _table(slide: Slide) -> list[str]:
    columns, rows = slide["columns"], slide["rows"]
    if not isinstance(columns, list) or not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        return ['"columns" has to be a list of headings, "rows" a list of lists']
    problems = [
        f"row {number} has {len(row)} cells, the table {len(columns)} columns"
        for number, row in enumerate(rows, 1)
        if len(row) != len(columns)
    ]
    if len(rows) > MOST_ROWS or len(columns) > MOST_COLUMNS:
        problems.append(
            f"the table has {len(rows)} rows and {len(columns)} columns; {MOST_ROWS} and {MOST_COLUMNS} are the most "
            "that can be read on a screen: show the rows that matter, and hand the whole table over as a file"
        )
    return problems


def _chart(slide: Slide) -> list[str]:
    chart = slide["chart"]
    if not isinstance(chart, dict) or chart.get("type") not in CHARTS:
        return [f'chart needs a "type": one of {", ".join(CHARTS)}']
    categories, series = chart.get("categories"), chart.get("series")
    if not isinstance(categories, list) or not isinstance(series, list) or not categories or not series:
        return ['chart needs "categories" (a list) and "series" (a list of {"name", "values"})']
    problems = []
    for each in series:
        name, values = (each.get("name"), each.get("values")) if isinstance(each, dict) else (None, None)
        if not name or not isinstance(values, list) or len(values) != len(categories):
            problems.append(f'series "{name}" needs a "name" and as many "values" as there are categories')
        elif not all(value is None or (isinstance(value, int | float) and value == value) for value in values):
            problems.append(f'series "{name}": values have to be numbers, or null where there is none')
    if len(series) > MOST_SERIES:
        problems.append(f"{len(series)} series cannot be told apart, {MOST_SERIES} are the most: group the small ones")
    if chart["type"] == "pie":
        problems += _pie(categories, series)
    if "highlight" in chart and (
        chart["highlight"] not in categories or len(series) > 1 or chart["type"] not in HIGHLIGHTS
    ):
        problems.append('"highlight" is one of the categories of a bar or column chart with one series')
    return problems + [
        f'chart: "{key}" is not known'
        for key in chart.keys() - {"type", "categories", "series", "unit", "format", "highlight"}
    ]


def _pie(categories: list[Any], series: list[Any]) -> list[str]:
    problems = []
    if len(series) != 1 or len(categories) > MOST_SLICES:
        problems.append(f"a pie has one series and at most {MOST_SLICES} slices; take a bar chart")
    if any(isinstance(value, int | float) and value < 0 for each in series for value in each.get("values", [])):
        problems.append("a pie cannot show negative values; take a bar chart")
    return problems


def _numbers(slide: Slide) -> list[str]:
    numbers = slide["numbers"]
    good = isinstance(numbers, list) and all(
        isinstance(each, dict) and each.get("value") and each.get("label") for each in numbers
    )
    if not good or len(numbers) > MOST_NUMBERS:
        return [f'"numbers" has to be a list of one to {MOST_NUMBERS} objects with "value" and "label"']
    return []


def _picture(slide: Slide, folder: Path) -> list[str]:
    path = folder / str(slide["picture"])
    if path.suffix.lower() not in PICTURES:
        return [f"{path.name} cannot stand in a .pptx; make it a PNG first ({', '.join(PICTURES)})"]
    if not path.is_file():
        return [f"the picture {path} does not exist"]
    try:
        with Image.open(path) as image:
            image.verify()
    except (UnidentifiedImageError, OSError, SyntaxError) as error:
        return [f"the picture {path.name} cannot be read: {error}"]
    return []
