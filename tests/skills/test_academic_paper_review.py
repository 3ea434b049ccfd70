"""check_statistics: p values against tables of reference, and what it finds in a paper's text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.skills.running import require_runtime, script

if TYPE_CHECKING:
    from pathlib import Path

require_runtime()

CHECK = "academic-paper-review/check_statistics"
PAPER = """
The groups differed, *t*(28) = 2.20, *p* = .036, and F(2, 45) = 3.21,
p < .05. Sex did not matter, χ2(1, N = 90) = 3.84, p = .05; r(98) = .25, p = .012.
The effect was strong, t(38) = 1.80, p = .04 and t(20) = 1.20, p = .03. Age: z = −1.96, p = .05.
A trend, F(1, 30) = 9.00, p > .05, and t(12.5) = 0.40, n.s.
"""

GROUPS = "--m1 5 --sd1 1 --n1 10 --m2 4 --sd2 1 --n2 10"
KNOWN = [
    ("t(10) = 2.228, p = .05", 0.05),
    ("t(1) = 12.706, p = .05", 0.05),
    ("F(4, 20) = 2.866, p = .05", 0.05),
    ("F(1, 120) = 6.851, p = .01", 0.01),
    ("chi2(3) = 7.815, p = .05", 0.05),
    ("chi2(30) = 50.892, p = .01", 0.01),
    ("r(8) = .632, p = .05", 0.05),
    ("z = 2.576, p = .01", 0.01),
]
"""Critical values as printed in the tables of textbooks."""


def test_probabilities_are_those_of_the_tables(tmp_path: Path) -> None:
    (tmp_path / "t.md").write_text("; ".join(text for text, _ in KNOWN))
    said = script(CHECK, "scan", "t.md", folder=tmp_path)
    computed = re.findall(r"-> p = ([\d.e-]+) to ([\d.e-]+): ok", said)
    assert len(computed) == len(KNOWN)
    for (low, high), (_, exact) in zip(computed, KNOWN, strict=True):
        assert float(low) == pytest.approx(exact, rel=0.01)
        assert float(high) == pytest.approx(exact, rel=0.01)


def test_a_paper_is_read_and_what_does_not_fit_is_marked(tmp_path: Path) -> None:
    (tmp_path / "paper.md").write_text(PAPER)
    said = script(CHECK, "scan", "paper.md", folder=tmp_path)
    marked = [line for line in said.splitlines() if line.startswith("! ")]
    assert "9 results read, 3 to look at" in said
    assert "t(38) = 1.80, p = .04" in marked[0]
    assert "one-sided test only" in marked[0]
    assert "t(20) = 1.20, p = .03" in marked[1]
    assert "the decision at 0.05 changes" in marked[1]
    assert "F(1, 30) = 9.00, p > .05" in marked[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("grim", "--mean", "3.45", "--n", "20"), "3.45 is possible"),
        (("grim", "--mean", "3.48", "--n", "19"), "impossible for whole numbers with n = 19; near ones: 3.47, 3.53"),
        (("grim", "--mean", "3.48", "--n", "19", "--items", "10"), "every mean of 2 decimals is possible"),
        (("percent", "--percent", "33.3", "--n", "21"), "count 7"),
        (("percent", "--percent", "34", "--n", "20"), "no whole count gives that"),
        (("groups", *GROUPS.split()), "t(18) = 2.236, p = 0.03"),
        (("interval", "--estimate", "1.8", "--low", "1.1", "--high", "2.95", "--ratio"), "p about 0.019"),
        (("interval", "--estimate", "2.5", "--low", "1.1", "--high", "2.95", "--ratio"), "away from the middle"),
    ],
)  # fmt: skip
def test_single_numbers_are_checked(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    assert said in script(CHECK, *arguments, folder=tmp_path)


def test_impossible_input_is_refused(tmp_path: Path) -> None:
    numbers = ("--m1", "5", "--sd1", "0", "--n1", "10", "--m2", "4", "--sd2", "1", "--n2", "1")
    assert "are these standard errors?" in script(CHECK, "groups", *numbers, folder=tmp_path, fails=True)
    assert "there is no file gone.md" in script(CHECK, "scan", "gone.md", folder=tmp_path, fails=True)
