"""A chart of a deck as a picture, from its numbers. For preview.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import fit
from PIL import Image, ImageDraw, ImageFont

if TYPE_CHECKING:
    from reading import Palette

TEXT, GRID, PALE = "#333333", "#d8dde2", "#acb2b8"
BAR = 0.7
"""Of the room of a category is taken by its bars."""


@dataclass
class _Chart:
    """series: (name, values, colour). room: left, top, right, bottom of the plot, in pixels."""

    kind: str
    categories: list[str]
    series: list[tuple[str, list[float], str]]
    pale: set[int]
    """Places of bars with a colour of their own, of the first series; they are drawn in grey."""
    canvas: ImageDraw.ImageDraw
    font: ImageFont.FreeTypeFont
    room: tuple[float, float, float, float]

    @property
    def lying(self) -> bool:
        return self.kind.startswith("BAR")

    @property
    def stacked(self) -> bool:
        return "STACKED" in self.kind or self.kind.startswith("AREA")

    def text(self, at: tuple[float, float], text: str, anchor: str = "mm", fill: str = TEXT) -> None:
        self.canvas.text(at, text[:24], font=self.font, fill=fill, anchor=anchor)


def draw_chart(chart: Any, palette: Palette, size: tuple[int, int], dots: float) -> Image.Image:
    """Bars, lines, areas and pies; of other kinds a note with the kind. dots: pixels an inch."""
    image = Image.new("RGB", size, "white")
    plot = chart.plots[0]
    names = [str(each) for each in plot.categories]
    colours = ["#" + palette.named(f"accent{number % 6 + 1}") for number in range(max(len(plot.series), len(names), 1))]
    series = [
        (str(each.name), [float(value or 0) for value in each.values], colour)
        for each, colour in zip(plot.series, colours, strict=False)
    ]
    font = ImageFont.truetype(fit.font_file(), max(8, 12 / 72 * dots))
    edge = font.size * 2.4
    room = (edge * 1.6, edge / 2, size[0] - edge, size[1] - edge * (2 if len(series) > 1 else 1))
    pale = {int(each) for each in plot._element.xpath("./c:ser[1]/c:dPt/c:idx/@val")}
    drawn = _Chart(chart.chart_type.name, names, series, pale, ImageDraw.Draw(image), font, room)
    if drawn.kind.startswith(("PIE", "DOUGHNUT")) and series:
        _pie(drawn, colours)
    elif drawn.kind.startswith(("COLUMN", "BAR", "LINE", "AREA")) and series and names:
        _grid(drawn)
        (_lines if drawn.kind.startswith(("LINE", "AREA")) else _bars)(drawn)
        _legend(drawn, size)
    else:
        drawn.text((size[0] / 2, size[1] / 2), f"a chart: {drawn.kind}")
    return image


def _span(chart: _Chart) -> tuple[float, float]:
    """The least and the greatest value that has to have room."""
    values = [value for _, row, _ in chart.series for value in row]
    if chart.stacked:
        values += [sum(row[at] for _, row, _ in chart.series) for at in range(len(chart.categories))]
    low = min(0.0, *values) if not chart.kind.startswith("LINE") else min(values) - 0.1 * (max(values) - min(values))
    return low, max(max(values), low + 1e-9) * 1.08 or 1.0


def _grid(chart: _Chart) -> None:
    low, high = _span(chart)
    left, top, right, bottom = chart.room
    for step in range(5):
        value = low + (high - low) * step / 4
        if chart.lying:
            x = left + (right - left) * step / 4
            chart.canvas.line((x, top, x, bottom), fill=GRID)
            chart.text((x, bottom + chart.font.size), f"{value:.3g}")
        else:
            y = bottom - (bottom - top) * step / 4
            chart.canvas.line((left, y, right, y), fill=GRID)
            chart.text((left - 6, y), f"{value:.3g}", "rm")
    share = ((bottom - top) if chart.lying else (right - left)) / len(chart.categories)
    for at, name in enumerate(chart.categories):
        if chart.lying:
            chart.text((left - 6, top + share * (at + 0.5)), name[:10], "rm")
        else:
            chart.text((left + share * (at + 0.5), bottom + chart.font.size), name)


def _bars(chart: _Chart) -> None:
    low, high = _span(chart)
    left, top, right, bottom = chart.room
    along, across = (bottom - top, right - left) if chart.lying else (right - left, bottom - top)
    share = along / len(chart.categories)
    wide = share * BAR / (1 if chart.stacked else len(chart.series))
    below = [0.0] * len(chart.categories)
    for number, (_, values, colour) in enumerate(chart.series):
        for at, value in enumerate(values):
            start = share * (at + (1 - BAR) / 2) + (0 if chart.stacked else wide * number)
            ends = [(each - low) / (high - low) * across for each in (below[at], below[at] + value)]
            one, other = sorted(ends)
            if chart.lying:
                box = (left + one, top + start, left + other, top + start + wide)
                label, anchor = (left + ends[1] + 4, top + start + wide / 2), "lm"
            else:
                box = (left + start, bottom - other, left + start + wide, bottom - one)
                label, anchor = (left + start + wide / 2, bottom - ends[1] - 3), "mb"
            chart.canvas.rectangle(box, fill=PALE if number == 0 and at in chart.pale else colour)
            if chart.stacked:
                chart.text(((box[0] + box[2]) / 2, (box[1] + box[3]) / 2), f"{value:g}", fill="white")
                below[at] += value
            else:
                chart.text(label, f"{value:g}", anchor)


def _lines(chart: _Chart) -> None:
    low, high = _span(chart)
    left, top, right, bottom = chart.room
    share = (right - left) / len(chart.categories)
    below = [0.0] * len(chart.categories)
    area = chart.kind.startswith("AREA")
    for _, values, colour in chart.series:
        tops = [value + base for value, base in zip(values, below, strict=True)] if area else values
        spots, floor = (
            [
                (left + share * (at + 0.5), bottom - (value - low) / (high - low) * (bottom - top))
                for at, value in enumerate(each)
            ]
            for each in (tops, below)
        )
        if area:
            chart.canvas.polygon([*spots, *reversed(floor)], fill=colour)
            below = tops
            continue
        chart.canvas.line(spots, fill=colour, width=3)
        for (x, y), value in zip(spots, values, strict=True):
            chart.canvas.ellipse((x - 4, y - 4, x + 4, y + 4), fill=colour)
            chart.text((x, y - 7), f"{value:g}", "mb")


def _pie(chart: _Chart, colours: list[str]) -> None:
    left, top, right, bottom = chart.room
    radius = min(right - left, bottom - top) / 2 - chart.font.size
    middle = ((left + right) / 2, (top + bottom) / 2)
    box = (middle[0] - radius, middle[1] - radius, middle[0] + radius, middle[1] + radius)
    values = chart.series[0][1]
    angle = -90.0
    for name, value, colour in zip(chart.categories, values, colours, strict=False):
        wide = 360 * value / (sum(values) or 1)
        chart.canvas.pieslice(box, angle, angle + wide, fill=colour, outline="white")
        angle += wide
        chart.canvas.rectangle((left, top, left + chart.font.size, top + chart.font.size), fill=colour)
        chart.text((left + chart.font.size * 1.5, top + chart.font.size / 2), f"{name}: {value:g}", "lm")
        top += chart.font.size * 1.5


def _legend(chart: _Chart, size: tuple[int, int]) -> None:
    if len(chart.series) < 2:
        return
    x, y = chart.room[0], size[1] - chart.font.size
    for name, _, colour in chart.series:
        chart.canvas.rectangle((x, y - chart.font.size / 2, x + chart.font.size, y + chart.font.size / 2), fill=colour)
        chart.text((x + chart.font.size * 1.4, y), name, "lm")
        x += chart.font.getlength(name[:24]) + chart.font.size * 3
