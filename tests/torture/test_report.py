"""The gate, and the forms in which a report leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.torture.report import ZERO, Report, markdown, read, write

if TYPE_CHECKING:
    from pathlib import Path


def test_a_report_without_blame_passes() -> None:
    report = Report("random", 1, messages=10, kills=3, recovery=[0.5, 1.0])
    assert report.problems() == []


@pytest.mark.parametrize("count", ZERO)
def test_every_count_that_must_be_zero_shuts_the_gate(count: str) -> None:
    report = Report("random", 1)
    report.blame(count, "seen")
    assert report.problems() == [f"{count} = 1"]
    assert report.details == [f"{count}: seen"]


def test_an_accounted_bubble_passes_only_without_adopting() -> None:
    assert Report("windows", 1, stale_bubbles=1).problems() == []
    assert Report("windows", 1, stale_bubbles=1, adopted=True).problems() == [
        "stale_bubbles = 1 with adopt_placeholders"
    ]


def test_a_slow_recovery_shuts_the_gate() -> None:
    report = Report("random", 1, recovery=[*([0.5] * 10), *([9.0] * 10)])
    assert report.problems() == ["recovery p95 = 9.0 s, more than 5 s"]
    assert report.problems(recovery_p95=10.0) == []
    assert (report.recovered(0.5), report.recovered(0.95), report.recovered(1.0)) == (0.5, 9.0, 9.0)


def test_what_was_skipped_neither_passes_nor_fails() -> None:
    report = Report("disk", 1, skipped="no mount", lost=1)
    assert report.problems() == []
    assert "| disk | skipped: no mount |" in markdown([report])


def test_a_report_comes_back_from_its_file_as_a_table(tmp_path: Path) -> None:
    report = Report("windows", 1, adopted=True, messages=70, kills=13, integrity="ok", recovery=[0.61, 1.49])
    write(tmp_path / "r.json", [report])
    (known,) = read(tmp_path / "r.json")
    assert known == report
    row = markdown([known]).splitlines()[-1]
    assert row.startswith("| windows (adopting) | 70 | 13 | 0 |")
    assert row.endswith("| 0.6 / 1.5 / 1.5 s | ok |")


def test_platforms_add_up_and_have_a_table_of_their_own(tmp_path: Path) -> None:
    report = Report("platforms", 1, kills=3, integrity="ok")
    for account, messages in (("slack", 4), ("wecom", 5)):
        part = report.part(account)
        part.messages, part.unacked, part.recovery = messages, messages - 4, [0.5, float(messages)]
        part.blame("lost", f"on {account}")
        report.add(part)
    assert (report.messages, report.unacked, report.lost, report.recovery) == (9, 1, 2, [0.5, 4.0, 0.5, 5.0])
    assert report.details == ["slack: lost: on slack", "wecom: lost: on wecom"]
    assert report.problems(recovery_p95=4.5) == ["lost = 2", "recovery p95 on wecom = 5.0 s, more than 4.5 s"]
    write(tmp_path / "r.json", [Report("random", 1), report])
    known = read(tmp_path / "r.json")
    assert known[1] == report
    alone, several = markdown(known).split("\n\n")
    assert "unacked" not in alone
    assert [row.split(" | ")[0] for row in several.splitlines()[2:]] == ["| slack", "| wecom", "| platforms"]
    assert several.splitlines()[3].endswith("| 1 | 0 | 0.5 / 5.0 / 5.0 s | ok |")
