"""How values lie: scatter, histogram, box plot; and shares: heat map, pie."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy
from _look import FAINT, INK, PALETTE, colors, value_axis
from _parts import axis_names, legend, names_of, short_value

if TYPE_CHECKING:
    from _data import Picture

Spec = dict[str, Any]


def scatter(axes: Any, spec: Spec, picture: Picture) -> None:
    """Points, with a straight trend where it is asked for."""
    paint = colors(list(picture.points), spec.get("highlight", []))
    total = sum(map(len, picture.points.values()))
    for number, (key, pairs) in enumerate(picture.points.items()):
        xs, ys = zip(*pairs, strict=True)
        axes.scatter(
            xs,
            ys,
            s=28 if total < 300 else 9,
            alpha=0.75 if total < 300 else 0.35,
            color=paint[key],
            marker="os^Dv"[number % 5],
            label=key,
            edgecolors="none",
        )
    if spec.get("log"):
        axes.set_xscale("log")
        axes.set_yscale("log")
    value_axis(axes.xaxis, spec | {"unit": ""})
    value_axis(axes.yaxis, spec)
    axes.grid()
    if spec.get("trend"):
        _trend(axes, picture)
    axis_names(axes, spec)
    if len(picture.points) > 1:
        legend(axes, len(picture.points))


def _trend(axes: Any, picture: Picture) -> None:
    xs, ys = (
        numpy.array(values) for values in zip(*(p for pairs in picture.points.values() for p in pairs), strict=True)
    )
    slope, start = numpy.polyfit(xs, ys, 1)
    r = float(numpy.corrcoef(xs, ys)[0, 1])
    ends = numpy.array([xs.min(), xs.max()])
    axes.plot(ends, start + slope * ends, color=INK, linewidth=1.2, linestyle="--")
    axes.text(
        0.99,
        0.01,
        f"r = {r:.2f}, n = {len(xs)}",
        transform=axes.transAxes,
        ha="right",
        va="bottom",
        fontsize=9.5,
        color=FAINT,
    )
    picture.notes.append(f"straight trend: slope {slope:.4g}, r {r:.3f}, n {len(xs)}")


def histogram(axes: Any, spec: Spec, picture: Picture) -> None:
    """How often values lie where; several groups as outlines over the same classes."""
    values = [v for group in picture.series.values() for v in group if v is not None]
    edges = numpy.histogram_bin_edges(values, bins=spec.get("bins") or ("auto" if len(values) < 100_000 else 60))
    edges = edges if len(edges) <= 61 else numpy.histogram_bin_edges(values, bins=60)
    paint = colors(list(picture.series), spec.get("highlight", []))
    if len(picture.series) == 1:
        axes.hist(values, bins=edges, color=PALETTE[0], edgecolor="white", linewidth=0.5)
        middle = float(numpy.median(values))
        axes.axvline(middle, color=PALETTE[1], linewidth=1.5)
        axes.annotate(
            f"median {short_value(middle, spec)}",
            (middle, 1),
            xycoords=("data", "axes fraction"),
            xytext=(4, -2),
            textcoords="offset points",
            color=PALETTE[1],
            fontsize=9.5,
            va="top",
        )
    else:
        for key, group in picture.series.items():
            axes.hist(
                group,
                bins=edges,
                histtype="step",
                linewidth=2,
                color=paint[key],
                label=f"{key} (n = {len(group)})",
                density=True,
            )
        legend(axes, len(picture.series))
    value_axis(axes.xaxis, spec)
    axes.grid(axis="y")
    axes.set_xlabel(str(spec.get("x_label") or spec.get("y")) + (f" ({spec['unit']})" if spec.get("unit") else ""))
    axes.set_ylabel(spec.get("y_label") or ("Count" if len(picture.series) == 1 else "Share, by density"))


def boxes(axes: Any, spec: Spec, picture: Picture) -> None:
    """Quartiles and whiskers by group, each with its number; groups of few show their points instead."""
    groups = {key: [value for value in values if value is not None] for key, values in picture.series.items()}
    order = sorted(groups, key=lambda key: -float(numpy.median(groups[key])))
    chance = numpy.random.default_rng(0)
    for at, key in enumerate(order):
        group = groups[key]
        if len(group) >= 8:
            axes.boxplot(
                [group],
                positions=[at],
                orientation="horizontal",
                widths=0.55,
                patch_artist=True,
                showfliers=len(group) > 200,
                boxprops={"facecolor": "#CFE3F1", "edgecolor": PALETTE[0]},
                medianprops={"color": PALETTE[1], "linewidth": 2},
                flierprops={"markersize": 3, "alpha": 0.4},
                manage_ticks=False,
            )
        if len(group) <= 200:
            axes.scatter(
                group,
                at + chance.uniform(-0.15, 0.15, len(group)),
                s=10,
                color=PALETTE[0],
                alpha=0.5,
                zorder=3,
                edgecolors="none",
            )
    axes.set_yticks(range(len(order)), [f"{key} (n = {len(groups[key])})" for key in order])
    axes.invert_yaxis()
    value_axis(axes.xaxis, spec)
    axes.grid(axis="x")
    axis_names(axes, spec, flat=True)


def heatmap(axes: Any, spec: Spec, picture: Picture) -> None:
    """Values of two dimensions as shades: blue for more; blue and orange around zero when there are both signs."""
    grid = numpy.array([[math.nan if v is None else v for v in values] for values in picture.series.values()])
    both = float(numpy.nanmin(grid)) < 0 < float(numpy.nanmax(grid))
    edge = float(numpy.nanmax(numpy.abs(grid)))
    limits = {"vmin": -edge, "vmax": edge} if both else {}
    shades = axes.imshow(grid, aspect="auto", cmap="PuOr_r" if both else "Blues", **limits)
    names = names_of(picture)
    axes.set_xticks(
        range(len(names)),
        names,
        rotation=0 if max(map(len, names)) * len(names) < 50 else 40,
        ha="center" if max(map(len, names)) * len(names) < 50 else "right",
    )
    axes.set_yticks(range(len(picture.series)), list(picture.series))
    axes.tick_params(length=0, labelcolor=INK)
    axes.spines[:].set_visible(False)
    if grid.size <= 120 and spec.get("labels", True):
        for (row, at), value in numpy.ndenumerate(grid):
            share = (
                abs(value) / edge
                if both
                else (value - numpy.nanmin(grid)) / ((numpy.nanmax(grid) - numpy.nanmin(grid)) or 1)
            )
            axes.text(
                at,
                row,
                "–" if math.isnan(value) else short_value(value, spec),
                ha="center",
                va="center",
                fontsize=9,
                color="white" if share > 0.6 else INK,
            )
    else:
        axes.figure.colorbar(shades, ax=axes, shrink=0.8, label=spec.get("unit", ""))
    axes.set_xlabel(spec.get("x_label", ""))
    axes.set_ylabel(spec.get("y_label", ""))


def pie(axes: Any, spec: Spec, picture: Picture) -> None:
    """Shares of one whole, from the top clockwise, each named beside its slice."""
    (values,) = picture.series.values()
    filled = [value or 0.0 for value in values]
    names = [f"{name}\n{100 * v / sum(filled):.0f}%" for name, v in zip(names_of(picture), filled, strict=True)]
    axes.pie(
        filled,
        labels=names,
        colors=PALETTE[: len(filled)],
        startangle=90,
        counterclock=False,
        wedgeprops={"edgecolor": "white", "linewidth": 1.5, "width": 0.45},
        labeldistance=1.12,
        textprops={"fontsize": 10.5},
    )
    axes.text(
        0,
        0,
        short_value(sum(filled), spec) + (f"\n{spec['y_label']}" if spec.get("y_label") else ""),
        ha="center",
        va="center",
        fontsize=11,
    )
    axes.set_aspect("equal")
