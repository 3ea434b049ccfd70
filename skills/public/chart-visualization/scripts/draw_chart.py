"""Draws a chart as a PNG from a small specification in JSON.

  draw_chart.py spec.json --output /mnt/user-data/outputs/revenue.png

{"type": "bar", "data": "by_region.csv", "x": "region", "y": "revenue", "unit": "€",
 "title": "The north brings half of the revenue", "source": "orders.xlsx, 2026-01 to 2026-06"}

Types: bar, grouped, stacked, stacked100, line, area, scatter, histogram, box, heatmap, pie, dual, panels. All keys are
in references/spec.md. What would mislead is refused with the better way; warnings are printed, to be mended or told.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from _checks import check_picture, check_spec
from _data import Picture, distributed, measured, records_of, scattered, stop

TYPES = (
    "bar",
    "grouped",
    "stacked",
    "stacked100",
    "line",
    "area",
    "scatter",
    "histogram",
    "box",
    "heatmap",
    "pie",
    "dual",
    "panels",
)
MOST_PANELS = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec", type=Path, nargs="+", help="the specification, JSON; several for several charts")
    parser.add_argument("--output", type=Path, required=True, help="the .png (.svg, .pdf); a folder for several charts")
    parser.add_argument("--check", action="store_true", help="only check specification and data, draw nothing")
    args = parser.parse_args()
    if len(args.spec) == 1 and args.output.suffix not in (".png", ".svg", ".pdf"):
        stop(f"{args.output.name} is no picture", "give a name that ends in .png")
    for path in args.spec:
        _chart(path, args.output if len(args.spec) == 1 else args.output / f"{path.stem}.png", draw=not args.check)


def _chart(path: Path, output: Path, *, draw: bool) -> None:
    spec = _spec(path)
    check_spec(spec, list(TYPES))
    picture = _picture(spec, path.parent)
    for warning in check_picture(spec, picture):
        print(f"warning: {warning}")
    if draw:
        print(_draw(spec, picture, output))
    for note in picture.notes:
        print(f"note: {note}")


def _spec(path: Path) -> dict[str, Any]:
    try:
        spec = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        stop(f"{path}: {error}", "write the specification as one JSON object; --help shows one")
    if not isinstance(spec, dict):
        stop(f"{path} holds no object", "write one JSON object; --help shows one")
    return spec


def _picture(spec: dict[str, Any], folder: Path) -> Picture:
    records = records_of(spec.get("data"), folder)
    if spec["type"] == "scatter":
        return scattered(spec, records)
    return distributed(spec, records) if spec["type"] in ("histogram", "box") else measured(spec, records)


def _draw(spec: dict[str, Any], picture: Picture, output: Path) -> str:
    """Returns what was drawn, in a line."""
    try:
        import _look
        from matplotlib import pyplot
    except ImportError as error:
        stop(f"{error}", "matplotlib is not installed here: deliver the figures as a table and say so")
    from _kinds import KINDS

    texts = [*picture.series, *picture.points, *map(str, picture.x), *(str(value) for value in spec.values())]
    fonts = _look.prepare(texts)
    if spec.get("size", "chat") not in _look.SIZES:
        stop(f"size {spec['size']!r} is unknown", f"use one of: {', '.join(_look.SIZES)}")
    figure, axes = pyplot.subplots(figsize=_look.SIZES[spec.get("size", "chat")])
    if spec["type"] == "panels":
        axes.remove()
        _panels(figure, spec, picture)
    else:
        KINDS[spec["type"]](axes, spec, picture)
        _reference(axes, spec)
    _look.headings(figure, spec)
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output)
    pyplot.close(figure)
    count = sum(map(len, picture.points.values())) or sum(v is not None for s in picture.series.values() for v in s)
    pixels = " x ".join(f"{inches * _look.DOTS:.0f}" for inches in figure.get_size_inches())
    return f"{output}: {spec['type']}, {count} values, {pixels}, font {fonts}"


def _panels(figure: Any, spec: dict[str, Any], picture: Picture) -> None:
    """A small chart for each series, all over the same times; with "zero": true also on the same scale."""
    from _courses import lines

    if len(picture.series) > MOST_PANELS:
        stop(f"{len(picture.series)} panels are too many", f"show at most {MOST_PANELS} series")
    wide = 1 if len(picture.series) <= 3 else 2 if len(picture.series) <= 8 else 3
    high = -(-len(picture.series) // wide)
    figure.set_size_inches(figure.get_size_inches()[0], max(4.8, 1.6 * high + 1))
    grid = figure.subplots(high, wide, sharex=True, sharey=bool(spec.get("zero")), squeeze=False)
    for axes in grid.flat[len(picture.series) :]:
        axes.remove()
    for axes, (name, values) in zip(grid.flat, picture.series.items(), strict=False):
        lines(
            axes,
            spec | {"highlight": [], "y_label": " ", "unit": ""},
            Picture(x=picture.x, series={name: values}, scale=picture.scale),
        )
        axes.set_title(name, fontsize=10.5, loc="left")


def _reference(axes: Any, spec: dict[str, Any]) -> None:
    """A line at a value that everything is compared with: a target, an average."""
    wish = spec.get("reference")
    if not wish:
        return
    if not isinstance(wish, dict) or not isinstance(wish.get("value"), int | float):
        stop("reference needs a value", 'give "reference": {"value": 100, "label": "Target"}')
    flat = axes.yaxis_inverted()
    (axes.axvline if flat else axes.axhline)(wish["value"], color="#222222", linewidth=1.2, linestyle=":")
    place = (
        ((wish["value"], 1.0), ("data", "axes fraction")) if flat else ((1.0, wish["value"]), ("axes fraction", "data"))
    )
    axes.annotate(
        str(wish.get("label", "")),
        place[0],
        xycoords=place[1],
        xytext=(0, 3),
        textcoords="offset points",
        ha="center" if flat else "right",
        fontsize=9,
    )


if __name__ == "__main__":
    main()
