"""health.py: repositories measured alike, from what was read of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.skills.running import require_runtime, script

if TYPE_CHECKING:
    from pathlib import Path

require_runtime()

GOOD: dict[str, Any] = {
    "name": "a/one",
    "created": "2019-07-03",
    "license": "MIT",
    "releases": ["2026-05-01", "2026-03-01", "2026-01-01"],
    "commits_by_author": {"ann": 40, "bob": 30, "cy": 20, "di": 10},
    "last_commit": "2026-07-01",
    "issues": [
        {"opened": "2026-01-01", "first_answer": "2026-01-03", "closed": "2026-01-21"},
        {"opened": "2026-06-03", "first_answer": "2026-06-07"},
    ],
    "open_pull_requests": 3,
    "advisories_open": 0,
}
POOR = {"name": "b/two", "license": "none", "commits_by_author": {"x": 90, "y": 10}, "last_commit": "2025-01-01"}


def health(folder: Path, *repositories: dict[str, Any], fails: bool = False) -> str:
    (folder / "facts.json").write_text(json.dumps({"as_of": "2026-07-03", "repositories": repositories}))
    arguments = ("facts.json", "--output", "out/comparison.md")
    return script("github-deep-research/health", *arguments, folder=folder, fails=fails)


def test_repositories_stand_side_by_side(tmp_path: Path) -> None:
    said = health(tmp_path, GOOD, POOR | {"advisories_open": 2})
    assert said.splitlines() == [
        "| | a/one | b/two |",
        "|---|---|---|",
        "| license | MIT | none |",
        "| age | 7.0 years | unknown |",
        "| last commit | 2 days ago | 548 days ago |",
        "| releases | last 63 days ago, 60 days between two (of 3) | unknown |",
        "| people | 2 of 4 make half of 100 commits | 1 of 2 make half of 100 commits |",
        "| issues (sample) | 1 of 2 closed after 20 days, answered after 3 days, open for 30 days | unknown |",
        "| open pull requests | 3 | unknown |",
        "| watch | nothing stands out | no commit for a year; one person made 90% of the commits; 2 open security "
        "advisories; no license: nobody may use it |",
    ]
    assert (tmp_path / "out" / "comparison.md").read_text() == said


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"stars": 5}, "unknown keys stars"),
        ({"last_commit": "yesterday"}, "is no date"),
        ({"last_commit": "2027-01-01"}, "lies behind as_of"),
    ],
)
def test_facts_that_cannot_be_are_refused(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    assert problem in health(tmp_path, GOOD | changes, fails=True)
