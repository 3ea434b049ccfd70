"""Charts as SVG, drawn here so that a page needs no script for them. Colours are in the style sheet."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from markupsafe import Markup

from bot.usage.report import label_of, short

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.http.resources.accounting import Usage

WIDTH, HEIGHT = 880, 260
LEFT, RIGHT, TOP, BOTTOM = 54, 8, 10, 26
"""Space for the amounts, at the right, above the highest bar, and for the days."""
LINES = 4
"""Grid lines above the axis."""
SERIES = 6
"""Colours; further names share the last one."""
MOST_LABELS = 10


def bars(usage: Usage, labels: Mapping[str, str], title: str) -> Markup:
    """Tokens of each day as stacked bars, one segment per name. labels: the displayed names. Empty where nothing was
    used."""
    sums = [sum(each.days[place] for each in usage.series) for place in range(len(usage.days))]
    top = _round_up(max(sums, default=0))
    if top == 0:
        return Markup("")
    each_width = (WIDTH - LEFT - RIGHT) / len(usage.days)
    parts = [_grid(top)]
    every = math.ceil(len(usage.days) / MOST_LABELS)
    for place, day in enumerate(usage.days):
        left = LEFT + place * each_width
        told = [f"{label_of(day)}: {short(sums[place])}"]
        told += [f"{labels[each.name]}: {short(each.days[place])}" for each in usage.series if each.days[place]]
        drawn = _column([each.days[place] for each in usage.series], left + each_width * 0.14, each_width * 0.72, top)
        parts.append(f"<g><title>{escape(chr(10).join(told))}</title>{_hit(left, each_width)}{drawn}</g>")
        if (len(usage.days) - 1 - place) % every == 0:
            middle = left + each_width / 2
            parts.append(f'<text x="{middle:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{label_of(day)}</text>')
    # All text written by people is escaped above; the rest is numbers.
    return Markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        + "".join(parts)
        + "</svg>"
    )


def series(place: int) -> int:
    """The number of the colour for a name at this position in the list."""
    return min(place, SERIES - 1) + 1


def _round_up(most: int) -> int:
    """A round number for the top of the axis: 1, 2, 2.5 or 5 times a power of ten."""
    if most <= 0:
        return 0
    scale: int = 10 ** max(0, math.floor(math.log10(most)))
    return next(math.ceil(step * scale) for step in (1, 2, 2.5, 5, 10) if step * scale >= most)


def _height(value: float, top: int) -> float:
    return (HEIGHT - TOP - BOTTOM) * value / top


def _grid(top: int) -> str:
    lines = []
    for step in range(LINES + 1):
        value = top * step / LINES
        y = HEIGHT - BOTTOM - _height(value, top)
        lines.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        lines.append(f'<text x="{LEFT - 8}" y="{y + 3.5:.1f}" text-anchor="end">{short(round(value))}</text>')
    return "".join(lines)


def _column(values: list[int], left: float, width: float, top: int) -> str:
    """One day's bar, with the first name at the bottom."""
    drawn, floor = [], float(HEIGHT - BOTTOM)
    for place, value in enumerate(values):
        if value > 0:
            tall = max(0.8, _height(value, top))
            floor -= tall
            drawn.append(
                f'<rect class="series-{series(place)}" x="{left:.1f}" y="{floor:.1f}" width="{width:.1f}"'
                f' height="{tall:.1f}" rx="{min(2.0, width / 4, tall / 2):.1f}"/>'
            )
    return "".join(drawn)


def _hit(left: float, width: float) -> str:
    """An invisible column, so that the figures of a short bar can be found with the mouse."""
    place = f'x="{left:.1f}" y="{TOP}" width="{width:.1f}" height="{HEIGHT - TOP - BOTTOM}"'
    return f'<rect fill="none" pointer-events="all" {place}/>'
