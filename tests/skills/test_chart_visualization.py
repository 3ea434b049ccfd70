"""draw_chart: every kind becomes a picture with something on it, and what would mislead does not."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from tests.skills.running import require_runtime, script

if TYPE_CHECKING:
    from pathlib import Path

require_runtime()

MONTHS = [f"2026-{month:02}" for month in range(1, 13)]
REGIONS = [
    {"region": name, "revenue": value} for name, value in (("North", 120), ("South", 80), ("East", 45), ("West", 30))
]
COURSE = [{"month": m, "product": p, "sold": 10 + i * j} for i, m in enumerate(MONTHS) for j, p in enumerate("ABC")]
POINTS = [{"a": n, "b": 2 * n + n % 7, "g": "xy"[n % 2]} for n in range(60)]
WORDS = {"title": "What to see", "unit": "€", "source": "a test"}
BARS = {"data": REGIONS, "x": "region", "y": "revenue"} | WORDS
LINES = {"data": COURSE, "x": "month", "y": "sold", "series": "product"} | WORDS

BLUE = (0, 114, 178)
"""The first colour of the palette."""


def draw(folder: Path, spec: dict[str, Any], *arguments: str, fails: bool = False) -> str:
    (folder / "chart.json").write_text(json.dumps(spec))
    return script(
        "chart-visualization/draw_chart", "chart.json", "--output", "c.png", *arguments, folder=folder, fails=fails
    )


def amount_of(color: tuple[int, int, int], file: Path) -> int:
    """Pixels."""
    with Image.open(file) as picture:
        counted = picture.convert("RGB").getcolors(1 << 24) or []
    return next((count for count, found in counted if found == color), 0)


KINDS: list[dict[str, Any]] = [
    {"type": "bar", "highlight": ["North"]} | BARS,
    {"type": "stacked100"} | LINES,
    {"type": "line", "reference": {"value": 30, "label": "Target"}} | LINES,
    {"type": "area"} | LINES,
    {"type": "scatter", "data": POINTS, "x": "a", "y": "b", "series": "g", "trend": True} | WORDS,
    {"type": "histogram", "data": POINTS, "y": "b"} | WORDS,
    {"type": "box", "data": POINTS, "x": "g", "y": "b"} | WORDS,
    {"type": "heatmap", "data": COURSE, "x": "month", "y": "sold", "series": "product"} | WORDS,
    {"type": "pie"} | BARS,
    {"type": "dual", "data": POINTS, "x": "a", "y": ["a", "b"], "y_labels": ["One (€)", "Other"]} | WORDS,
    {"type": "panels"} | LINES,
]


def test_each_kind_is_drawn_fit_for_a_chat(tmp_path: Path) -> None:
    """All in one call, as for a report."""
    for spec in KINDS:
        (tmp_path / f"{spec['type']}.json").write_text(json.dumps(spec))
    files = [f"{spec['type']}.json" for spec in KINDS]
    said = script("chart-visualization/draw_chart", *files, "--output", "out", folder=tmp_path)
    for kind in (spec["type"] for spec in KINDS):
        file = tmp_path / "out" / f"{kind}.png"
        with Image.open(file) as picture:
            assert (picture.format, picture.width) == ("PNG", 1600)
            assert re.search(rf"{kind}\.png: {kind}, \d+ values, 1600 x {picture.height}, ", said)
        assert file.stat().st_size < 400_000
        assert kind in ("heatmap", "box", "scatter") or amount_of(BLUE, file) > 1000


def test_longer_bars_have_more_ink(tmp_path: Path) -> None:
    """The lengths are the values: a bar of half the height has half the pixels."""
    for marked in ("North", "West"):
        (tmp_path / f"{marked}.json").write_text(json.dumps({"type": "bar", "highlight": [marked]} | BARS))
    script("chart-visualization/draw_chart", "North.json", "West.json", "--output", ".", folder=tmp_path)
    high, low = (amount_of(BLUE, tmp_path / f"{name}.png") for name in ("North", "West"))
    assert high / low == pytest.approx(120 / 30, rel=0.05)


TANGLE = [{"x": m, "s": n, "v": 1} for m in MONTHS for n in range(9)]
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"type": "pie", "data": [{"region": str(n), "revenue": 1 + n} for n in range(9)]}, '"top": 5'),
    ({"type": "pie", "data": [*REGIONS, {"region": "Lost", "revenue": -5}]}, "use bar"),
    ({"type": "bar", "zero": False}, "bars and areas begin at zero"),
    ({"type": "stacked", "data": [*REGIONS, {"region": "Lost", "revenue": -5}]}, "use grouped"),
    ({"type": "dual"}, "two scales need two y"),
    ({"type": "bar", "data": [*REGIONS, REGIONS[0]]}, '"aggregate"'),
    ({"type": "bar", "data": [{"region": "a", "revenue": "12 EUR"}]}, "are no numbers, such as '12 EUR'"),
    ({"type": "bar", "y": "profit"}, "the columns are: region, revenue"),
    ({"type": "bar", "colour": "red"}, "unknown keys: colour"),
    ({"type": "donut"}, "use one of: bar"),
    ({"type": "bar", "highlight": ["Nort"]}, "highlight names what is not drawn: Nort"),
    ({"type": "bar", "data": "gone.csv"}, "there is no file"),
    ({"type": "line", "log": True, "data": [*REGIONS, {"region": "Lost", "revenue": 0}]}, "no place for zero"),
    ({"type": "scatter", "data": POINTS[:2], "x": "a", "y": "b", "trend": True}, "at least three points"),
    ({"type": "line", "data": TANGLE, "x": "x", "y": "v", "series": "s"}, "highlight"),
]


@pytest.mark.parametrize(("changes", "said"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_what_misleads_is_refused_with_the_better_way(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    refused = draw(tmp_path, BARS | changes, "--check", fails=True)
    assert refused.startswith("error: ")
    assert "\n  fix: " in refused
    assert said in refused


def test_a_script_that_no_font_here_writes_is_said_not_boxed(tmp_path: Path) -> None:
    """Linear B: fonts for it are nowhere by default."""
    assert "no font here can write 𐀀" in draw(tmp_path, {"type": "bar"} | BARS | {"title": "𐀀"}, fails=True)
    assert not (tmp_path / "c.png").exists()


def test_small_ones_are_put_together_and_gaps_are_told(tmp_path: Path) -> None:
    said = draw(tmp_path, {"type": "bar", "top": 2} | BARS, "--check")
    assert "note: 2 smaller ones are put together as Other" in said
    gaps = [{"month": m, "sold": None if m == "2026-03" else 5} for m in MONTHS]
    assert "1 value(s) are missing; they are drawn as gaps" in draw(
        tmp_path, {"type": "line"} | LINES | {"data": gaps, "series": None}, "--check"
    )
