"""ledger.py: what was read, what rests on it, and that nothing else gets into a report."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.skills.running import require_runtime, script

if TYPE_CHECKING:
    from pathlib import Path

require_runtime()


class Research:
    """One ledger in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments: str, fails: bool = False) -> str:
        where = ("--ledger", "ledger.json")
        return script("deep-research/ledger", *where, *arguments, folder=self.folder, fails=fails)

    def source(self, url: str, publisher: str, kind: str = "news", **more: str) -> str:
        options = {"published": "2026-03"} | more
        rest = [part for key, value in options.items() for part in (f"--{key}", value)]
        return self("source", url, "--title", f"On {publisher}", "--publisher", publisher, "--kind", kind, *rest)

    def draft(self, text: str) -> str:
        (self.folder / "draft.md").write_text(text)
        return "draft.md"


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two questions; two sources of different houses, of which one claim has the first."""
    made = Research(tmp_path_factory.mktemp("begun"))
    assert (
        made("start", "Is X worth it?", "--sub", "Price?", "--sub", "Users?", "--recent", "18")
        == "Q1: Price?\nQ2: Users?\n"
    )
    made.source("https://www.shop.example/x?utm_source=mail", "X Inc", "vendor")
    made.source("https://daily.example.com/a", "Daily")
    made("claim", "X costs 40 EUR a month.", "--sub", "Q1", "--source", "S1", "--quote", "EUR 40 per month", "--key")
    return made.folder / "ledger.json"


@pytest.fixture
def research(begun: Path, tmp_path: Path) -> Research:
    """A copy of it for each test."""
    shutil.copy(begun, tmp_path)
    return Research(tmp_path)


def test_a_claim_is_confirmed_by_a_second_voice_only(research: Research) -> None:
    research.source("https://agency.example.org/1", "Daily", kind="news", origin="S2")
    assert research("support", "C1", "--source", "S1", "--quote", "only 40 EUR per month") == "C1 single\n"
    assert research("support", "C1", "--source", "S2", "--quote", "it costs 40 euros") == "C1 confirmed\n"
    assert "C1 key confirmed (S1 S1 S2)" in research("status")


def test_a_copy_of_a_source_is_no_voice_of_its_own(research: Research) -> None:
    research.source("https://copy.example.net/x", "Copy", origin="S1")
    assert research("support", "C1", "--source", "S3", "--quote", "40 EUR per month, says X Inc") == "C1 single\n"


def test_one_page_is_one_source(research: Research) -> None:
    assert research.source("https://www.shop.example/x/", "X Inc", "vendor") == "S1 is that page already\n"


def test_a_dispute_is_told_or_settled(research: Research) -> None:
    assert research("against", "C1", "--source", "S2", "--quote", "raised to 45 in May") == "C1 disputed\n"
    said = research("check", research.draft("X costs 40 EUR [C1].\n"), fails=True)
    assert "line 1: [C1] is disputed: say who says what and cite it as [C1?], or settle it" in said
    told = research("render", research.draft("The maker says 40 EUR, the Daily 45 EUR [C1?].\n"))
    assert "the Daily 45 EUR [1][2]." in told
    assert research("settle", "C1", "--as", "dropped", "--why", "the page is gone") == "C1 dropped\n"
    assert "[C1?] is dropped" in research("check", "draft.md", fails=True)


def test_nothing_is_rendered_from_what_was_not_read(research: Research) -> None:
    draft = research.draft("See https://other.example and [C9].\n\nIt has 1200 users.\n")
    said = research("check", draft, fails=True)
    assert "[C9] is not in the ledger" in said
    assert "https://other.example is not in the ledger" in said
    assert "line 3: a figure without a source: It has 1200 users." in said
    assert "key claim C1 is not in the report" in said
    assert "Q2 is not answered: Users?" in said
    research("render", draft, "--output", "report.md", fails=True)
    assert not (research.folder / "report.md").exists()


def test_citations_are_numbered_as_they_come(research: Research) -> None:
    research("claim", "It has 900 users.", "--sub", "Q2", "--source", "S2", "--quote", "some 900 users")
    draft = research.draft("# Answer\n\nIt has 900 users [C2]. It costs 40 EUR [C1, S2].\n")
    assert "C1 rests on one weak source" in research("check", draft)
    said = research("render", draft, "--output", "out/report.md", "--language", "de")
    assert "2 sources" in said
    text = (research.folder / "out" / "report.md").read_text()
    assert "It has 900 users [1]. It costs 40 EUR [1][2]." in text
    assert "## Quellen\n\n1. Daily: On Daily (2026-03). https://daily.example.com/a, abgerufen 20" in text
    assert "2. X Inc: On X Inc (2026-03). https://www.shop.example/x, abgerufen" in text
    assert "900 users [1](https://daily.example.com/a)." in research("render", draft, "--links")


def test_it_says_when_it_is_enough_and_when_to_stop(research: Research) -> None:
    assert "Missing: Q1 has no confirmed claim; Q2 has no confirmed claim; C1 is single" in research("status")
    for number in range(4):
        research.source(f"https://site{number}.example/", f"Site {number}")
    assert "The last 5 sources brought no new claim" in research("status")
    research("gap", "Q2", "--why", "no public figures")
    research("support", "C1", "--source", "S2", "--quote", "it costs 40 euros")
    assert "Missing: nothing. It is enough: write." in research("status")


def test_old_and_undated_pages_are_noticed(research: Research) -> None:
    assert "is there something newer?" in research.source("https://old.example/", "Old", published="2019")
    assert "has no date" in research.source("https://undated.example/", "Undated", published="unknown")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("claim", "T", "--sub", "Q1", "--source", "S9", "--quote", "long enough"), "there is no source S9"),
        (("claim", "T", "--sub", "Q7", "--source", "S1", "--quote", "long enough"), "there is no question Q7"),
        (("support", "C1", "--source", "S1", "--quote", "short"), "the quote has 5 characters"),
        (("support", "C4", "--source", "S1", "--quote", "long enough"), "there is no claim C4"),
        (("check", "gone.md"), "there is no draft gone.md"),
    ],
)
def test_a_slip_is_refused_and_changes_nothing(research: Research, arguments: tuple[str, ...], problem: str) -> None:
    before = (research.folder / "ledger.json").read_text()
    assert problem in research(*arguments, fails=True)
    assert (research.folder / "ledger.json").read_text() == before


def test_a_new_research_keeps_the_earlier_one(research: Research) -> None:
    assert "The earlier ledger is kept as ledger.1.json" in research("start", "Other?", "--sub", "One?")
    assert (research.folder / "ledger.1.json").exists()
