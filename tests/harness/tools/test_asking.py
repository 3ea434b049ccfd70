"""A question to the person ends the turn, alone; the next message answers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool

from harness.events import Finished, Outcome, Question
from harness.graph.calls import ASK
from harness.middleware.requests import _only_the_question
from harness.tools.asking import MOST_OPTIONS, Asked, asked
from tests.harness.support import Bench, Script, calls, collect, context, failed, finished, said, unpaired

if TYPE_CHECKING:
    from harness.events import AnyRunEvent

ARGS = {"question": "Which year?", "options": ["2024", "2025"], "context": "There are two."}


def question(events: list[AnyRunEvent]) -> Question:
    (found,) = [event for event in events if isinstance(event, Question)]
    return found


async def test_a_question_ends_the_turn_and_the_next_message_answers_it(bench: Bench, script: Script) -> None:
    script.steps = [calls((ASK, ARGS), text="Let me ask."), "2025 it is."]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("make the report"))
        asks, end = question(events), finished(events)
        assert (asks.text, asks.options, asks.prompt_id) == ("There are two.\n\nWhich year?", ("2024", "2025"), "qr1")
        assert asks.expires_at > bench.clock.now()
        assert (end.text, end.outcome) == (asks.text, Outcome.SUCCESS)
        assert len(script.requests) == 1
        answered = await collect(harness, context("r2"), said("2025"))
        assert finished(answered).text == "2025 it is."
        assert unpaired(script.requests[-1]) is None
        assert [entry.text for entry in await harness.history("thread-1")] == [
            "make the report",
            asks.text,
            "2025",
            "2025 it is.",
        ]


async def test_after_a_restart_it_is_the_same_question(bench: Bench, script: Script) -> None:
    script.steps = [calls((ASK, ARGS))]
    async with bench.open() as harness:
        first = await collect(harness, context("r1"), said("make the report"))
    async with bench.open() as harness:
        again = await collect(harness, context("r1"), said("make the report"), attempt=2, next_seq=20)
    assert question(again).prompt_id == question(first).prompt_id
    assert finished(again).text == finished(first).text
    assert len(script.requests) == 1


async def test_nothing_is_done_beside_a_question(bench: Bench, script: Script) -> None:
    done = []

    @tool
    async def delete(name: str) -> str:
        """Delete something."""
        done.append(name)
        return "deleted"

    bench.tools = [delete]
    script.steps = [calls(("delete", {"name": "all"}), (ASK, ARGS), (ASK, {"question": "And where?"}))]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("tidy up"))
        assert finished(events).text == "There are two.\n\nWhich year?"
        await collect(harness, context("r2"), said("2024"))
    assert done == []
    assert len([m for m in script.requests[-1] if isinstance(m, ToolMessage)]) == 1


async def test_a_call_that_asks_nothing_is_none(bench: Bench, script: Script) -> None:
    script.steps = [calls((ASK, {"question": "  "}), text="Here is the answer.")]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("hello"))
    assert not any(isinstance(event, Question) for event in events)
    assert finished(events).text == "Here is the answer."


async def test_what_no_model_should_write_does_not_end_a_turn_without_a_question(bench: Bench, script: Script) -> None:
    wild = {"question": "Which?", "kind": "curiosity", "options": [{"label": "One"}, 2, None, "  "], "more": {}}
    script.steps = [calls((ASK, wild))]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("hello"))
    assert question(events).options == ("One", "2")
    assert isinstance(events[-1], Finished)


async def test_only_empty_questions_are_an_empty_answer(bench: Bench, script: Script) -> None:
    script.steps = [calls((ASK, {})) for _ in range(9)]
    async with bench.open() as harness:
        assert failed(await collect(harness, context("r1"), said("hello"))).kind == "empty"


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ({"question": "Why?"}, Asked("Why?")),
        ({"context": "Either way works.", "options": ["a", "b"]}, Asked("Either way works.", ("a", "b"))),
        ({"context": "Either way works."}, None),
        ({"question": 5}, None),
        ({"question": "Why?", "options": "a"}, Asked("Why?")),
        ({"question": "Why?", "options": ["a", "a", "", "b\n c"]}, Asked("Why?", ("a", "b c"))),
        (
            {"question": "Why?", "options": [str(n) for n in range(9)]},
            Asked("Why?", tuple(map(str, range(MOST_OPTIONS)))),
        ),
    ],
)
def test_questions_are_taken_as_they_come(args: dict[str, Any], shown: Asked | None) -> None:
    assert asked(args) == shown


def test_the_blocks_of_other_calls_go_too() -> None:
    content = [
        {"type": "text", "text": "Let me ask."},
        {"type": "tool_use", "id": "call-0", "name": "delete", "input": {}},
        {"type": "tool_use", "id": "call-1", "name": ASK, "input": ARGS},
    ]
    made = calls(("delete", {}), (ASK, ARGS))
    message = AIMessage(content, tool_calls=made.tool_calls)  # type: ignore[arg-type]
    assert [block.get("id") for block in _only_the_question(message).content] == [None, "call-1"]
