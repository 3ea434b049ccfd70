"""The plan: kept in the thread, shown as it changes, and still before the model when a summary took its messages."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from harness.config import SummarizationSettings
from harness.events import TodosChanged, TodoStatus
from harness.graph.state import newest_plan
from harness.text.frames import PLAN
from harness.tools.planning import MOST_TODOS
from tests.harness.support import Bench, Script, answers, calls, collect, context, finished, said

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

STEPS = ("Read the figures", "Draw the chart", "Write the report")


def plan(*statuses: str, ident: str = "p1") -> AIMessage:
    todos = [{"content": step, "status": status} for step, status in zip(STEPS, statuses, strict=True)]
    return calls(("write_todos", {"todos": todos}), ids=[ident])


def notes(request: list[BaseMessage]) -> list[str]:
    return [str(m.content) for m in request if isinstance(m, HumanMessage) and f"<{PLAN}>" in str(m.content)]


async def test_it_is_told_as_it_changes_and_read_back(bench: Bench, script: Script) -> None:
    script.steps = [
        plan("in_progress", "pending", "pending"),
        plan("completed", "in_progress", "pending", ident="p2"),
        "done",
    ]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("go"))
    told = [event.todos for event in events if isinstance(event, TodosChanged)]
    assert [[status for _, status in todos] for todos in told] == [
        [TodoStatus.IN_PROGRESS, TodoStatus.PENDING, TodoStatus.PENDING],
        [TodoStatus.COMPLETED, TodoStatus.IN_PROGRESS, TodoStatus.PENDING],
    ]
    assert "[x] Read the figures\n[>] Draw the chart\n[ ] Write the report" in str(script.requests[-1][-1].content)
    assert [notes(request) for request in script.requests] == [[], [], []]


async def test_a_summary_does_not_take_it_away(bench: Bench, script: Script) -> None:
    bench.summarization = SummarizationSettings(max_messages=6, keep=2)
    script.steps = [plan("completed", "in_progress", "pending"), "begun"]
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("go"))
        for number in range(2, 5):
            script.steps = ["a summary" if number == 4 else "more", "more"]
            await collect(harness, context(f"r{number}"), said(f"turn {number}"))
    last = script.requests[-1]
    assert not any("write_todos" in str(getattr(message, "tool_calls", "")) for message in last)
    assert len(notes(last)) == 1
    assert "[>] Draw the chart" in notes([last[-1]])[0]


async def test_a_finished_plan_is_not_repeated_to_the_model(bench: Bench, script: Script) -> None:
    bench.summarization = SummarizationSettings(max_messages=6, keep=2)
    script.steps = [plan("completed", "completed", "completed"), "all done"]
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("go"))
        for number in range(2, 5):
            script.steps = ["a summary" if number == 4 else "more", "more"]
            finished(await collect(harness, context(f"r{number}"), said(f"turn {number}")))
    assert notes(script.requests[-1]) == []


async def test_two_plans_in_one_answer_are_no_conflict(bench: Bench, script: Script) -> None:
    todos: list[dict[str, Any]] = [{"content": "Only this", "status": "in_progress"}]
    both = calls(("write_todos", {"todos": []}), ("write_todos", {"todos": todos}), ids=["a", "b"])
    told = await answers(bench, script, both)
    assert told == ["The plan is empty.", "[>] Only this"]


async def test_what_is_no_plan_is_refused_and_says_why(bench: Bench, script: Script) -> None:
    long = [{"content": f"step {n}"} for n in range(MOST_TODOS + 1)]
    wrong = [{"content": "a", "status": "nearly"}]
    told = await answers(
        bench, script, calls(("write_todos", {"todos": long}), ("write_todos", {"todos": wrong}), ids=["a", "b"])
    )
    assert f"at most {MOST_TODOS} steps" in told[0]
    assert "completed" in told[1]


@given(st.lists(st.lists(st.fixed_dictionaries({"content": st.text(max_size=3)}), max_size=2), min_size=3, max_size=3))
def test_the_reducer_is_associative(plans: list[list[dict[str, str]]]) -> None:
    a, b, c = plans
    assert newest_plan(newest_plan(a, b), c) == newest_plan(a, newest_plan(b, c)) == c
    assert list(itertools.accumulate(plans, newest_plan))[-1] == c
