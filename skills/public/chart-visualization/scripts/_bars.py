"""Bars: of one series, side by side, or on top of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from _look import FAINT, HATCHES, INK, MUTED, PALETTE, colors, value_axis
from _parts import axis_names, legend, names_of, short_value

if TYPE_CHECKING:
    from _data import Picture

Spec = dict[str, Any]
Series = dict[str, list[float | None]]
LABELLED = 12
"""As many bars still have room for their values."""


def bars(axes: Any, spec: Spec, picture: Picture) -> None:
    """Bars of one series, of several side by side (grouped), or on top of each other (stacked, stacked100)."""
    names, series = names_of(picture), picture.series
    if spec["type"] == "stacked100":
        series, spec = _shares(series), spec | {"unit": "%"}
    stacked = spec["type"].startswith("stacked")
    flat = spec.get("horizontal", picture.scale == "names" and (max(map(len, names)) > 9 or len(names) > 8))
    labelled = spec.get("labels", _has_room(len(names), len(series), stacked=stacked))
    draw = axes.barh if flat else axes.bar
    width = 0.75 if stacked or len(series) == 1 else 0.8 / len(series)
    below = [0.0] * len(names)
    for number, (key, values) in enumerate(series.items()):
        shift = 0.0 if stacked else (number - (len(series) - 1) / 2) * width
        look: dict[str, Any] = {
            "color": _paint(spec, series, key, names),
            "hatch": HATCHES[number % len(HATCHES)] if number >= 4 else "",
        }
        heights = [value or 0.0 for value in values]
        if stacked:
            look["left" if flat else "bottom"] = below
        places = [place + shift for place in range(len(names))]
        drawn = draw(places, heights, width, label=key, edgecolor="white", linewidth=0.5, **look)
        if labelled and stacked:
            _label_inside(axes, drawn, values, spec, max(_heights(series)))
        elif labelled:
            axes.bar_label(drawn, [_text(value, spec) for value in values], padding=3, fontsize=9.5, color=INK)
        below = [a + b for a, b in zip(below, heights, strict=True)]
    _bar_axes(axes, spec, names, flat=flat, bare=labelled and not stacked)
    if len(series) > 1:
        legend(axes, len(series))


def _has_room(names: int, series: int, *, stacked: bool) -> bool:
    """For the values beside or in the bars."""
    return names <= LABELLED and series <= 4 if stacked else names * series <= LABELLED


def _heights(series: Series) -> list[float]:
    """Of the stacks."""
    return [sum(value or 0 for value in column) for column in zip(*series.values(), strict=True)]


def _shares(series: Series) -> Series:
    """In percent of each stack."""
    heights = [height or 1 for height in _heights(series)]
    return {key: [100 * (v or 0) / h for v, h in zip(values, heights, strict=True)] for key, values in series.items()}


def _paint(spec: Spec, series: Series, key: str, names: list[str]) -> str | list[str]:
    """The colour of a series; of its single bars where some of them are marked."""
    marked = spec.get("highlight", [])
    if len(series) == 1 and marked:
        return [PALETTE[0] if name in marked else MUTED for name in names]
    return colors(list(series), marked)[key]


def _label_inside(axes: Any, drawn: Any, values: list[float | None], spec: Spec, highest: float) -> None:
    texts = ["" if not v or v < highest * 0.05 else _text(round(v) if highest > 50 else v, spec) for v in values]
    axes.bar_label(drawn, texts, label_type="center", fontsize=9, color="white")


def _text(value: float | None, spec: Spec) -> str:
    return "" if value is None else short_value(value, spec)


def _bar_axes(axes: Any, spec: Spec, names: list[str], *, flat: bool, bare: bool) -> None:
    """bare: the bars carry their values, so that no scale is needed."""
    named, valued = (axes.yaxis, axes.xaxis) if flat else (axes.xaxis, axes.yaxis)
    named.set_ticks(range(len(names)), [name if len(name) <= 32 else name[:31] + "…" for name in names])
    named.set_tick_params(length=0, labelcolor=INK)
    if flat:
        axes.invert_yaxis()
    elif max(map(len, names)) * len(names) > 55:
        axes.tick_params(axis="x", rotation=35)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
    value_axis(valued, spec)
    if bare:
        valued.set_visible(False)
        axes.spines["bottom" if flat else "left"].set_visible(False)
        axes.margins(**{"x" if flat else "y": 0.12})
    else:
        axes.grid(axis="x" if flat else "y")
    if any(edge < 0 for edge in (axes.get_xlim() if flat else axes.get_ylim())):
        axes.spines["left" if flat else "bottom"].set_visible(False)
        (axes.axvline if flat else axes.axhline)(0, color=FAINT, linewidth=0.8)
    axis_names(axes, spec, flat=flat, bare=bare)
