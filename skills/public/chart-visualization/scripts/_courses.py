"""Courses: lines, areas and two scales over time or another order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from _look import FAINT, MUTED, PALETTE, colors, time_axis, value_axis
from _parts import axis_names, legend

if TYPE_CHECKING:
    from _data import Picture

Spec = dict[str, Any]


def lines(axes: Any, spec: Spec, picture: Picture) -> None:
    """One line for each series, named at its end; gaps stay gaps."""
    paint = colors(list(picture.series), spec.get("highlight", []))
    xs = picture.x if picture.scale != "names" else list(range(len(picture.x)))
    for key, values in picture.series.items():
        ys = [math.nan if value is None else value for value in values]
        strong = not spec.get("highlight") or key in spec["highlight"]
        axes.plot(
            xs,
            ys,
            color=paint[key],
            linewidth=2.2 if strong else 1.3,
            marker="o" if len(xs) <= 15 else None,
            markersize=4,
            label=key,
            zorder=3 if strong else 2,
        )
    _running_axes(axes, spec, picture)
    if len(picture.series) > 1:
        _names_at_ends(axes, xs, picture, paint)


def areas(axes: Any, spec: Spec, picture: Picture) -> None:
    """Series on top of each other over time: how a whole is made up and grows."""
    xs = picture.x if picture.scale != "names" else list(range(len(picture.x)))
    paint = colors(list(picture.series), spec.get("highlight", []))
    layers = [[value or 0.0 for value in values] for values in picture.series.values()]
    axes.stackplot(
        xs,
        layers,
        labels=list(picture.series),
        colors=[paint[key] for key in picture.series],
        edgecolor="white",
        linewidth=0.6,
    )
    _running_axes(axes, spec, picture)
    axes.set_ylim(bottom=0)
    if len(layers) > 1:
        legend(axes, len(layers))


def _running_axes(axes: Any, spec: Spec, picture: Picture) -> None:
    if picture.scale == "time":
        time_axis(axes.xaxis)
    elif picture.scale == "names":
        step = max(1, math.ceil(len(picture.x) / 10))
        axes.set_xticks(range(0, len(picture.x), step), picture.x[::step])
    elif all(float(x).is_integer() for x in picture.x) and len(picture.x) <= 12:
        axes.set_xticks(picture.x, [f"{x:.0f}" for x in picture.x])
    if spec.get("log"):
        axes.set_yscale("log")
    if spec.get("zero", False):
        axes.set_ylim(bottom=0)
    value_axis(axes.yaxis, spec)
    axes.grid(axis="y")
    axes.margins(x=0.02)
    axis_names(axes, spec)


def _names_at_ends(axes: Any, xs: list[Any], picture: Picture, paint: dict[str, str]) -> None:
    """Beside the last point of each line, moved apart where they would touch: nobody has to look up a legend."""
    low, high = axes.get_ylim()
    logarithmic = axes.get_yscale() == "log"
    place = (
        (lambda v: math.log(v / low) / math.log(high / low)) if logarithmic else (lambda v: (v - low) / (high - low))
    )
    last = {key: next((v for v in reversed(values) if v is not None), None) for key, values in picture.series.items()}
    order = sorted((key for key in last if last[key] is not None), key=lambda key: last[key] or 0)
    height = -1.0
    for key in order:
        height = max(place(last[key]), height + 0.055)
        axes.annotate(
            key if len(key) <= 18 else key[:17] + "…",
            (1.0, height),
            xycoords="axes fraction",
            xytext=(5, 0),
            textcoords="offset points",
            color=paint[key] if paint[key] != MUTED else FAINT,
            va="center",
            fontsize=10,
            annotation_clip=False,
        )


def dual(axes: Any, spec: Spec, picture: Picture) -> None:
    """Two units over one time, each scale in the colour of its line and from zero, so that neither is stretched."""
    (left, right), (left_name, right_name) = picture.series.values(), spec["y_labels"]
    xs = picture.x if picture.scale != "names" else list(range(len(picture.x)))
    other = axes.twinx()
    for ax, values, _name, color, style in (
        (axes, left, left_name, PALETTE[0], "-"),
        (other, right, right_name, PALETTE[1], "--"),
    ):
        ax.plot(xs, [math.nan if v is None else v for v in values], color=color, linewidth=2.2, linestyle=style)
        ax.set_ylim(bottom=0) if min(v for v in values if v is not None) >= 0 else None
        value_axis(ax.yaxis, spec | {"unit": ""})
        ax.tick_params(axis="y", colors=color)
    _running_axes(axes, spec | {"unit": "", "zero": min(v for v in left if v is not None) >= 0}, picture)
    axes.set_ylabel(left_name, color=PALETTE[0])
    other.set_ylabel(right_name, color=PALETTE[1])
    other.spines["right"].set_visible(True)
