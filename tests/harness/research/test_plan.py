"""Plans as models write them, well and badly; the order of their steps; what they may cost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.config import PriceSettings
from harness.memory.repair import Unreadable
from harness.research.plan import Plan, estimate, read_plan


def plan(*steps: dict[str, Any], **more: Any) -> str:
    return json.dumps({"title": "A title", "thought": "So.", "locale": "en-US", "steps": [*steps], **more})


def step(title: str, *depends_on: object, kind: str = "research") -> dict[str, Any]:
    return {"title": title, "description": f"{title}!", "step_type": kind, "depends_on": [*depends_on]}


def ids(waves: list[list[Any]]) -> list[list[str]]:
    return [[each.id for each in wave] for wave in waves]


def test_steps_run_in_waves_by_their_dependencies() -> None:
    read = read_plan(plan(step("a"), step("b"), step("c", 1), step("d", 3, 2)), most=6)
    assert ids(read.waves()) == [["1", "2"], ["3"], ["4"]]
    assert [each.id for each in read.ready({"1"})] == ["2", "3"]


@pytest.mark.parametrize("written", ["1", "step 1", "Step 1: a", 1])
def test_a_dependency_is_understood_in_any_form(written: object) -> None:
    assert read_plan(plan(step("a"), step("b", written)), most=6).steps[1].depends_on == ("1",)


def test_dependencies_on_itself_and_on_later_steps_do_not_block_a_plan() -> None:
    read = read_plan(plan(step("a", 2, 1, 99), step("b", 1)), most=6)
    assert ids(read.waves()) == [["1"], ["2"]]


def test_further_steps_are_numbered_on_and_depend_on_each_other() -> None:
    before = read_plan(plan(step("a"), step("b")), most=6).steps
    read = read_plan(plan(step("c"), step("d", 1)), most=6, before=before)
    assert [(each.id, each.title, each.depends_on) for each in read.steps[2:]] == [("3", "c", ()), ("4", "d", ("3",))]


def test_what_weak_models_write_is_read() -> None:
    text = """Sure! Here is the plan:
```json
{"title": "T", // the title
 "steps": [{"title": "compute", "step_type": "coder"}, {"description": "think", "need_search": False},]
}
```
I hope it helps."""
    read = read_plan(text, most=6)
    assert [(each.title, each.type) for each in read.steps] == [("compute", "processing"), ("think", "analysis")]


def test_at_most_so_many_steps_are_kept() -> None:
    assert len(read_plan(plan(*(step(str(n)) for n in range(9))), most=4).steps) == 4


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no json at all", "no JSON object"),
        (json.dumps({"title": "T"}), 'no list "steps"'),
        (json.dumps({"title": "T", "steps": []}), '"steps" is empty'),
        (json.dumps({"title": "T", "steps": [{}]}), "step 1 has neither title nor description"),
        (json.dumps({"steps": [{"title": "a"}]}), 'no "title"'),
    ],
)
def test_what_cannot_be_read_is_told_to_the_model(text: str, problem: str) -> None:
    with pytest.raises(Unreadable, match=problem):
        read_plan(text, most=6)


def test_enough_context_needs_no_steps() -> None:
    read = read_plan(plan(has_enough_context=True), most=6)
    assert read.enough
    assert read.steps == ()


def test_an_estimate_counts_what_runs_at_the_same_time_once() -> None:
    wide = read_plan(plan(step("a"), step("b"), step("c")), most=6)
    long = read_plan(plan(step("a"), step("b", 1), step("c", 2)), most=6)
    assert estimate(wide, at_once=3, price=None).calls == estimate(long, at_once=3, price=None).calls == (10, 31)
    assert estimate(wide, at_once=3, price=None).minutes[1] < estimate(long, at_once=3, price=None).minutes[1]
    assert estimate(wide, at_once=1, price=None).minutes == estimate(long, at_once=3, price=None).minutes


def test_an_estimate_has_money_where_the_model_has_a_price() -> None:
    priced = estimate(Plan(title="T"), at_once=3, price=PriceSettings(input=1.0, output=10.0, currency="EUR"))
    assert list(priced.money or ()) == pytest.approx([0.006, 0.024])
    assert priced.currency == "EUR"
