"""Which function draws which kind of chart; looked up by draw_chart.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from _bars import bars
from _courses import areas, dual, lines
from _spreads import boxes, heatmap, histogram, pie, scatter

if TYPE_CHECKING:
    from collections.abc import Callable

    from _data import Picture

KINDS: dict[str, Callable[[Any, dict[str, Any], Picture], None]] = {
    "bar": bars,
    "grouped": bars,
    "stacked": bars,
    "stacked100": bars,
    "line": lines,
    "area": areas,
    "scatter": scatter,
    "histogram": histogram,
    "box": boxes,
    "heatmap": heatmap,
    "pie": pie,
    "dual": dual,
    "panels": lines,
}
