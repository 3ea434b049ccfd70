"""What makes a chart mislead or unreadable: refused with the better way, or warned of; called by draw_chart.py."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from _data import stop

if TYPE_CHECKING:
    from _data import Picture

Spec = dict[str, Any]
_KEYS = """type data x y series aggregate sort top title subtitle x_label y_label y_labels unit source highlight labels
reference horizontal bins log trend zero size decimal_comma"""
KNOWN = frozenset(_KEYS.split())
MOST_SLICES, MOST_BARS, MOST_GROUPS, MOST_LINES, MOST_CELLS = 6, 30, 5, 7, 1200


def check_spec(spec: Spec, kinds: list[str]) -> None:
    """Before data is read."""
    kind = spec.get("type")
    if kind not in kinds:
        stop(f"type {kind!r} is unknown", f"use one of: {', '.join(kinds)}; references/choosing.md says which")
    if unknown := set(spec) - KNOWN:
        stop(f"unknown keys: {', '.join(sorted(unknown))}", f"there are: {', '.join(sorted(KNOWN))}")
    if spec.get("zero") is False and kind in ("bar", "grouped", "stacked", "stacked100", "area"):
        stop(
            "bars and areas begin at zero, or their lengths lie",
            'use type "line" for small changes, or show the differences',
        )
    if spec.get("log") and kind not in ("line", "scatter", "panels"):
        stop(f"{kind} cannot have a logarithmic scale", "use line or scatter")


def check_picture(spec: Spec, picture: Picture) -> list[str]:
    """Ends the script where a chart would mislead; returns warnings."""
    kind = spec["type"]
    check = {
        "pie": _pie,
        "line": _line,
        "panels": _line,
        "dual": _dual,
        "heatmap": _heatmap,
        "box": _groups,
        "histogram": _groups,
    }
    values = [value for series in picture.series.values() for value in series if value is not None]
    if not values and not picture.points:
        stop("there is no value to draw", "look at the data: are the names of x and y right, are the cells empty?")
    _computable(spec, picture, values)
    if kind in ("bar", "grouped", "stacked", "stacked100", "area"):
        warnings = _bars(spec, picture, values)
    else:
        warnings = check[kind](spec, picture, values) if kind in check else []
    if spec.get("highlight") and (
        lost := set(spec["highlight"]) - set(picture.series) - {str(x) for x in picture.x} - set(picture.points)
    ):
        stop(
            f"highlight names what is not drawn: {', '.join(lost)}",
            f"there are: {', '.join([*picture.series, *map(str, picture.x)][:12])}",
        )
    gaps = sum(value is None for series in picture.series.values() for value in series)
    if gaps and kind not in ("box", "histogram"):
        warnings.append(
            f"{gaps} value(s) are missing"
            + ("; they are drawn as gaps" if kind in ("line", "panels", "dual") else "; say so")
        )
    return warnings + _words(spec, kind)


def _computable(spec: Spec, picture: Picture, values: list[float]) -> None:
    """What a logarithm and a trend need."""
    points = [point for pairs in picture.points.values() for point in pairs]
    if spec.get("log") and min([*values, *(number for point in points for number in point)]) <= 0:
        stop(
            "a logarithmic scale has no place for zero and negative values", "leave out log, or the rows that have them"
        )
    if spec.get("trend") and (len(points) < 3 or len({x for x, _ in points}) < 2 or len({y for _, y in points}) < 2):
        stop("a trend needs at least three points that differ in x and y", "leave out trend")


def _words(spec: Spec, kind: str) -> list[str]:
    found = []
    if not spec.get("title"):
        found.append("no title: say in it what the reader should see, such as 'Revenue fell by 8 % in March'")
    if not spec.get("source"):
        found.append("no source: name where the figures come from and their date")
    if kind not in ("pie", "heatmap", "dual") and not spec.get("unit") and not spec.get("y_label"):
        found.append("no unit and no y_label: say what is counted or measured")
    return found


def _bars(spec: Spec, picture: Picture, values: list[float]) -> list[str]:
    kind, names, groups = spec["type"], len(picture.x), len(picture.series)
    if kind == "area":
        if groups > MOST_LINES:
            stop(f"{groups} layers cannot be told apart", "put the smallest together, or use panels")
        if picture.scale == "names":
            return ["an area over names without an order suggests a course: use stacked"]
    elif names > MOST_BARS:
        stop(
            f"{names} bars cannot be read", 'give "top": 10 (the rest becomes Other), or use line for a course of time'
        )
    if kind == "bar" and groups > 1:
        stop(
            f"bar shows one series, the data has {groups}",
            "use grouped (to compare them) or stacked (as parts of a whole)",
        )
    if kind == "grouped" and groups > MOST_GROUPS:
        stop(f"{groups} bars in a group cannot be compared", "use heatmap, panels, or fewer series")
    if kind in ("stacked", "stacked100", "area") and min(values) < 0:
        stop("parts of a whole cannot be negative", "use grouped, or show the net figure as bars")
    return (
        ["more than four parts in a stack: only the lowest can be compared well"]
        if kind == "stacked" and groups > 4
        else []
    )


def _pie(spec: Spec, picture: Picture, values: list[float]) -> list[str]:
    if len(picture.series) > 1:
        stop("a pie shows one series", "use stacked100 for shares of several wholes")
    if len(values) > MOST_SLICES:
        stop(
            f"{len(values)} slices cannot be compared", f'use bar, or "top": {MOST_SLICES - 1} (the rest becomes Other)'
        )
    if min(values) < 0 or not sum(values):
        stop("slices cannot be negative, nor all be zero", "use bar")
    shares = sorted(value / sum(values) for value in values)
    close = any(b - a < 0.03 for a, b in itertools.pairwise(shares))
    return ["slices of nearly equal size are hard to tell apart: a bar chart shows the order"] if close else []


def _line(spec: Spec, picture: Picture, values: list[float]) -> list[str]:
    found = []
    if len(picture.series) > MOST_LINES and not spec.get("highlight"):
        stop(
            f"{len(picture.series)} lines cannot be followed",
            'give "highlight": [one to three names], use panels, or fewer series',
        )
    if picture.scale == "names" and not spec.get("sort"):
        found.append(
            'x has names, no times or numbers: a line suggests a course. Use bar; if they have an order, "sort": "none"'
        )
    if len(picture.x) < 3:
        found.append("a line of two points is a claim about what lies between: consider bar")
    if (
        values
        and spec["type"] == "line"
        and not spec.get("zero")
        and min(values) > 0
        and min(values) > 0.4 * max(values)
    ):
        found.append('the scale does not begin at zero, so changes look larger: say so, or give "zero": true')
    return found


def _dual(spec: Spec, picture: Picture, values: list[float]) -> list[str]:
    if len(picture.series) != 2:
        stop(f"two scales need two y, here are {len(picture.series)}", 'give "y": [one, other], or use panels')
    labels = spec.get("y_labels")
    if not isinstance(labels, list) or len(labels) != 2 or labels[0] == labels[1]:
        stop(
            "each of two scales needs its own name and unit",
            'give "y_labels": ["Revenue (k€)", "Orders"]; the same unit needs no second scale: use line',
        )
    return [
        "two scales make any two lines meet: where they cross means nothing; panels show the same without that risk"
    ]


def _heatmap(spec: Spec, picture: Picture, values: list[float]) -> list[str]:
    if len(picture.series) * len(picture.x) > MOST_CELLS:
        stop(f"{len(picture.series)} x {len(picture.x)} cells are too many", "aggregate one of the two dimensions")
    return []


def _groups(spec: Spec, picture: Picture, values: list[float]) -> list[str]:
    if len(picture.series) > (4 if spec["type"] == "histogram" else 15):
        stop(f"{len(picture.series)} groups are too many for {spec['type']}", "use box for up to 15, or fewer groups")
    few = [f"{key} ({len(group)})" for key, group in picture.series.items() if len(group) < 8]
    return [f"few values in {', '.join(few[:4])}: no distribution can be seen in them"] if few else []
