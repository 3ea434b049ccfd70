"""The tables, and how they get into the docs."""

from __future__ import annotations

from typing import Any

from tests.bench.report import markdown, merged, rewritten, sections, summary

MACHINE = {
    "cores": 2,
    "processor": "CPU",
    "memory_mb": 8192,
    "system": "Linux x86_64",
    "python": "3.11.2",
    "packages": {"langgraph": "1.2", "py-spy": None},
    "commit": "abc",
    "load_before": [0.1, 0, 0],
}


def document(**scenarios: dict[str, Any]) -> dict[str, Any]:
    return {
        "machine": MACHINE,
        "quick": False,
        "scenarios": {name.replace("_", "-"): s for name, s in scenarios.items()},
    }


def scenario(*problems: str, **figures: dict[str, Any]) -> dict[str, Any]:
    return {"seconds": 1, "figures": figures, "details": {}, "problems": list(problems)}


SPEED = {"value": 61.26, "unit": "/s", "target": ">= 60", "met": True}
CPU = {"value": 15.91, "unit": "ms", "target": "<= 15", "met": False}
UNKNOWN = {"value": None, "unit": "ms", "reason": "py-spy is not installed"}


def test_the_summary_shows_values_targets_and_problems() -> None:
    lines = summary(document(chats_50=scenario("chat 5: no answer", msgs_per_s=SPEED, cpu=CPU))).splitlines()
    assert [line.split() for line in lines[1:3]] == [
        ["chats-50", "msgs_per_s", "61.3", "/s", ">=", "60", "yes"],
        ["chats-50", "cpu", "15.9", "ms", "<=", "15", "**no**"],
    ]
    assert lines[3] == "PROBLEM chats-50: chat 5: no answer"


def test_chats_stand_side_by_side() -> None:
    found = sections(document(chats_1=scenario(cpu=CPU), chats_50=scenario(msgs_per_s=SPEED)))
    assert found["chats"].splitlines() == [
        "|  | chats-1 | chats-50 |",
        "| --- | ---: | ---: |",
        "| cpu | 15.9 ms |  |",
        "| msgs per s |  | 61.3 /s |",
    ]
    assert "| chats-1 | cpu | 15.9 ms | <= 15 | **no** |" in found["targets"]


def test_what_was_not_measured_says_why() -> None:
    assert "| store | not measured: py-spy is not installed |" in markdown(document(split=scenario(store=UNKNOWN)))


def test_documents_are_merged_and_the_later_scenario_stands() -> None:
    first = document(floor=scenario(turn=CPU), split=scenario(store=UNKNOWN))
    both = merged([first, document(floor=scenario(turn=SPEED))])
    assert both["scenarios"]["floor"]["figures"] == {"turn": SPEED}
    assert both["scenarios"].keys() == {"floor", "split"}
    assert both["machine"] == MACHINE


def test_only_sections_with_figures_are_rewritten() -> None:
    page = (
        "# Page\n<!-- bench:floor -->\nold\n<!-- end of bench:floor -->\ntext\n"
        "<!-- bench:soak -->\nkept\n<!-- end of bench:soak -->\nend\n"
    )
    once = rewritten(page, document(floor=scenario(turn=CPU)))
    assert "old" not in once
    assert "| turn | 15.9 ms |" in once
    assert "<!-- bench:soak -->\nkept\n<!-- end of bench:soak -->\nend\n" in once
    assert rewritten(once, document(floor=scenario(turn=CPU))) == once
