"""Draws the soak's figure from its JSON. Only this module imports matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tests.bench.soak import WARM_SHARE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

INK, PALE, GRID = "#2f3437", "#8a9299", "#e6e8ea"
BLUE, GREEN, AMBER, RED = "#2f6db3", "#3a8f6e", "#c8862a", "#b5483f"
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": PALE,
    "xtick.color": PALE,
    "ytick.color": PALE,
    "svg.hashsalt": "antler",  # the same data produces the same file
}
_PANELS: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    ("Memory, MB", (("rss", "RSS", BLUE), ("anonymous", "anonymous", GREEN))),
    ("Handles", (("files", "open files", BLUE), ("threads", "threads", AMBER))),
    ("In work", (("backlog", "messages running and waiting", RED),)),
    ("Data, MB", (("databases", "both databases with their logs", BLUE),)),
)


def draw(scenario: dict[str, Any], file: Path) -> None:
    """Write the figure of a soak (its part of the bench's JSON) as SVG or PNG, by the file's ending."""
    samples = [{**s, "backlog": s["running"] + s["waiting"]} for s in scenario["details"]["samples"]]
    minutes = [sample["at"] / 60 for sample in samples]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.4, 7.2), facecolor="white", layout="constrained")
        panels: Sequence[Axes] = figure.subplots(len(_PANELS), 1, sharex=True, height_ratios=[1.5, 1, 1, 1])
        for axes, (title, lines) in zip(panels, _PANELS, strict=True):
            _panel(axes, title)
            for name, label, colour in lines:
                values = [sample[name] for sample in samples]
                axes.plot(minutes, values, color=colour, linewidth=1.3, label=label, solid_capstyle="round")
            _waves(axes, scenario["details"]["waves"], named=axes is panels[0])
            axes.set_ylim(bottom=0, top=axes.get_ylim()[1] * 1.12)
            _legend(axes)
        panels[0].axvspan(0, minutes[-1] * WARM_SHARE, color=GRID, alpha=0.45, linewidth=0)
        panels[-1].set_xlabel("minutes")
        panels[-1].set_xlim(0, minutes[-1])
        figure.suptitle(_title(scenario), x=0.01, ha="left", fontsize=10.5)
        figure.savefig(file, dpi=150, metadata={"Date": None} if file.suffix == ".svg" else None)


def _panel(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=9, fontweight="bold", color=INK)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))


def _legend(axes: Axes) -> None:
    """Put the legend on the title's line, so that it never covers the data."""
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 0.98),
        borderaxespad=0.0,
        ncols=2,
        frameon=False,
        fontsize=8,
        handlelength=1.4,
        labelcolor="linecolor",
    )


def _waves(axes: Axes, waves: Sequence[Sequence[Any]], *, named: bool) -> None:
    for began, ended, name in waves:
        axes.axvspan(began / 60, ended / 60, color=AMBER, alpha=0.16, linewidth=0)
        if named:
            where = ((began + ended) / 120, 1.0)
            axes.annotate(
                name, where, xycoords=("data", "axes fraction"), ha="center", va="top", fontsize=7, color=AMBER
            )


def _title(scenario: dict[str, Any]) -> str:
    figures = {name: figure["value"] for name, figure in scenario["figures"].items()}
    return (
        f"{figures['sent']:,.0f} messages in {scenario['details']['minutes']:g} minutes, "
        f"{figures['unanswered']:g} unanswered; memory {figures['rss_growth']:+.1f} MB an hour after the warm-up (grey)"
    )
