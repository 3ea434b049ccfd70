"""scenarios.py: a business case by hand and by machine is the same, and its formulas can do nothing but compute."""

from __future__ import annotations

import csv
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from tests.skills.running import require_runtime, script

if TYPE_CHECKING:
    from pathlib import Path

require_runtime()

MODEL: dict[str, Any] = {
    "unit": "k€",
    "years": [2027, 2028, 2029],
    "rate": 0.1,
    "inputs": {
        "price": {"base": 40, "low": 36, "high": 42, "source": "offer"},
        "volume": {"base": 1000, "low": 600, "high": 1200, "source": "orders"},
        "team": 10,
    },
    "lines": {"revenue": "price * volume / 1000", "cost": "team + (50 if year < 1 else 0)", "cash": "revenue - cost"},
    "scenarios": {"slow": {"volume": 600}},
}


def compute(folder: Path, model: dict[str, Any], *arguments: str, fails: bool = False) -> str:
    (folder / "model.json").write_text(json.dumps(model))
    return script("consulting-analysis/scenarios", "model.json", *arguments, folder=folder, fails=fails)


def test_a_case_is_computed_as_by_hand(tmp_path: Path) -> None:
    """Cash -20, 30, 30: at 10 % that is worth -20 + 27.27 + 24.79."""
    said = compute(tmp_path, MODEL, "--output", "out/case.csv", "--chart", "out/tornado.png")
    assert "| cash | -20.0 | 30.0 | 30.0 |" in said
    assert "- base: 32.1, 40.0, 2028" in said
    assert "- slow: -11.7, -8.0, not within these years" in said
    volume, price = re.findall(r"^- (?:volume|price) \(.*$", said, re.MULTILINE)
    assert volume.startswith("- volume (600 to 1200): -11.7 to 54.0; zero at 706.9")
    assert price.startswith("- price (36 to 42): ")
    assert "Without a source: team" in said
    with (tmp_path / "out" / "case.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = {(row["scenario"], row["line"]): row["2027"] for row in csv.DictReader(file)}
    assert (rows["base", "revenue"], rows["slow", "cash"]) == ("40.0", "-36.0")
    with Image.open(tmp_path / "out" / "tornado.png") as picture:
        assert picture.width > 1000


WRONG = [
    ({"lines": {"cash": "price *"}}, "is no formula"),
    ({"lines": {"cash": "prise"}}, "'prise' is not known"),
    ({"lines": {"cash": "price / (team - 10)"}}, "cannot be computed"),
    ({"lines": {"cash": "__import__('os').getcwd()"}}, "is not allowed in a formula"),
    ({"lines": {"cash": "price.real"}}, "is not allowed in a formula"),
    ({"lines": {"cash": "9 ** 9 ** 9"}}, "a power of"),
    ({"lines": {"cash": "(0 - price) ** 0.5"}}, "cannot be computed: "),
    ({"scenarios": {"x": {"volum": 1}}}, "scenario 'x' changes volum"),
    ({"inputs": {"a b": 1}}, "is not usable"),
    ({"cash": "profit"}, "which is no line"),
    ({"years": []}, "years, inputs or lines are missing"),
    ({"yers": []}, "unknown keys: yers"),
]


@pytest.mark.parametrize(("changes", "problem"), WRONG, ids=[problem for _, problem in WRONG])
def test_a_model_that_makes_no_sense_is_refused(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    said = compute(tmp_path, MODEL | changes, fails=True)
    assert problem in said
    assert "\n  fix: " in said
