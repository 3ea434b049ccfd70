"""LoopDetection: a repeated call is warned of, then the turn ends with an answer; what only looks alike is let be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import ValidationError

from harness.config import LoopSettings
from harness.events import Outcome, TextReset, ToolStarted, Usage
from harness.middleware.limits import LOOP_WARNING
from tests.harness.support import Bench, Script, calls, collect, context, finished, said

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

done: list[str] = []


@tool
async def look(where: str, description: str = "") -> str:
    """Look somewhere."""
    done.append(where)
    return f"nothing at {where}"


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    done.clear()


def looks(*places: str) -> list[AIMessage]:
    return [calls(("look", {"where": place}), ids=[f"c{n}"]) for n, place in enumerate(places)]


def warnings(request: list[BaseMessage]) -> list[HumanMessage]:
    return [message for message in request if isinstance(message, HumanMessage) and message.name == LOOP_WARNING]


async def test_the_third_equal_call_is_warned_of_behind_its_result(bench: Bench, script: Script) -> None:
    bench.tools = [look]
    script.steps = [*looks("here", "here", "here", "there"), "nothing anywhere"]
    async with bench.open() as harness:
        end = finished(await collect(harness, context("r1"), said("go")))
        await collect(harness, context("r2"), said("next"))
    assert (end.outcome, end.text, end.repeated) == (Outcome.SUCCESS, "nothing anywhere", None)
    # Requests 0 to 2 are before the third call, 3 is behind it, 4 is behind another call.
    assert [len(warnings(request)) for request in script.requests] == [0, 0, 0, 1, 0, 0]
    *_, result, warning = script.requests[3]
    assert isinstance(result, ToolMessage)
    assert "3 times in this turn: look" in str(warning.content)


async def test_the_fifth_is_not_made_and_the_model_answers_without_tools(bench: Bench, script: Script) -> None:
    bench.tools = [look]
    fifth = calls(("look", {"where": "here"}), text="Once more.", ids=["c5"])
    script.steps = [*looks(*["here"] * 4), fifth, "I looked and found nothing."]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("go"))
    end = finished(events)
    assert (end.outcome, end.text) == (Outcome.LIMITED, "I looked and found nothing.")
    assert (end.repeated, end.calls) == (5, None)
    assert done == ["here"] * 4
    assert script.tools_offered == [True] * 5 + [False]
    assert "5th time" in str(script.requests[-1][-1].content)
    # What the dropped call cost is counted, its text is taken back, and nothing of it is told as done.
    assert [sum(isinstance(event, kind) for event in events) for kind in (Usage, TextReset, ToolStarted)] == [6, 1, 4]


async def test_a_model_that_calls_all_the_same_is_not_obeyed(bench: Bench, script: Script) -> None:
    bench.tools = [look]
    script.steps = [*looks(*["here"] * 5), calls(("look", {"where": "here"}), text="Still looking.", ids=["again"])]
    async with bench.open() as harness:
        end = finished(await collect(harness, context("r1"), said("go")))
    assert (end.outcome, end.text, len(done)) == (Outcome.LIMITED, "Still looking.", 4)


async def test_other_words_for_the_same_call_do_not_hide_it(bench: Bench, script: Script) -> None:
    bench.tools = [look]
    script.steps = [
        *(calls(("look", {"where": "here", "description": f"try {n}"}), ids=[f"c{n}"]) for n in range(5)),
        "enough",
    ]
    async with bench.open() as harness:
        assert finished(await collect(harness, context("r1"), said("go"))).repeated == 5


async def test_the_next_turn_may_make_the_same_calls_again(bench: Bench, script: Script) -> None:
    bench.tools = [look]
    script.steps = [*looks(*["here"] * 4), "one", *looks(*["here"] * 4), "two"]
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("go"))
        end = finished(await collect(harness, context("r2"), said("again")))
    assert (end.outcome, end.text, len(done)) == (Outcome.SUCCESS, "two", 8)


async def test_calls_beyond_the_window_are_forgotten(bench: Bench, script: Script) -> None:
    bench.tools = [look]
    bench.loop = LoopSettings(warn=2, stop=3, window=3)
    script.steps = [*looks("a", "b", "c", "a", "b", "c", "a", "b", "c"), "none"]
    async with bench.open() as harness:
        end = finished(await collect(harness, context("r1"), said("go")))
    assert (end.outcome, len(done)) == (Outcome.SUCCESS, 9)


async def test_equal_calls_of_one_answer_count_each(bench: Bench, script: Script) -> None:
    bench.tools = [look]
    script.steps = [calls(*[("look", {"where": "here"})] * 5, ids=[f"c{n}" for n in range(5)]), "all at once"]
    async with bench.open() as harness:
        end = finished(await collect(harness, context("r1"), said("go")))
    assert (end.repeated, end.text, done) == (5, "all at once", [])


@pytest.mark.parametrize("wrong", [{"warn": 5, "stop": 5}, {"stop": 30}, {"warn": 1}])
def test_settings_out_of_order_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        LoopSettings(**wrong)
