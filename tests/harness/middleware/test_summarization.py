"""Summarization: a bounded history in which nothing is parted that belongs together."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from PIL import Image

from harness.config import SummarizationSettings
from harness.context import InputFile, RunInput
from harness.errors import ModelFailure
from harness.events import FailureKind
from harness.graph.messages import MARK, SUMMARY, is_users
from harness.middleware.requests import pair_tool_calls
from harness.middleware.summarization import NO_SUMMARY, SUMMARY_HEADER, cut_history
from harness.run.runner import make_harness
from tests.harness.support import Bench, Script, calls, collect, context, finished, said, scripted_settings, unpaired

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.messages import BaseMessage


@tool
async def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing at {where}"


ROUND = st.integers(1, 3).map(
    lambda n: [calls(*[("look", {})] * n), *(ToolMessage("x" * 20, tool_call_id=f"call-{i}") for i in range(n))]
)
TURN = st.lists(ROUND, max_size=3).map(
    lambda rounds: [HumanMessage("question"), *(m for one in rounds for m in one), AIMessage("answer")]
)
HISTORY = st.tuples(st.lists(TURN, max_size=6), TURN, st.integers(0, 12)).map(
    lambda drawn: [m for turn in drawn[0] for m in turn] + drawn[1][: max(1, drawn[2])]
)


@given(history=HISTORY, keep=st.integers(1, 12), budget=st.integers(0, 400))
def test_a_cut_parts_nothing_and_keeps_the_newest_question(history: list[AnyMessage], keep: int, budget: int) -> None:
    history = pair_tool_calls(history)
    cut = cut_history(history, keep=keep, fits=lambda kept: sum(len(str(m.content)) for m in kept) <= budget)
    assert unpaired(cut.kept) is None
    assert unpaired([m for m in cut.old if not is_users(m)]) is None
    newest = [m for m in history if is_users(m)][-1]
    assert any(m is newest for m in cut.kept)
    assert sorted(map(id, [*cut.old, *cut.kept])) == sorted(map(id, history))
    assert cut.kept[-1] is history[-1]


def no_longer_than(limit: int) -> Any:
    def check(messages: list[BaseMessage]) -> None:
        assert unpaired(messages) is None
        assert len(messages) <= limit

    return check


def is_summary_prompt(messages: list[BaseMessage]) -> bool:
    return len(messages) == 1 and "Messages to summarize:" in str(messages[0].content)


async def test_a_long_thread_stays_short(bench: Bench, script: Script) -> None:
    bench.summarization = SummarizationSettings(max_messages=12, keep=4)
    script.check = no_longer_than(14)
    async with bench.open() as harness:
        for number in range(30):
            events = await collect(harness, context(f"r{number}"), said(f"question {number}"))
            assert events[-1].type == "finished"
        history = await harness.history("thread-1")
    assert history[-2].text == "question 29"
    assert len(history) <= 12
    summaries = [request for request in script.requests if is_summary_prompt(request)]
    assert 3 <= len(summaries) <= 6
    # What an earlier summary said goes into the next one.
    assert SUMMARY_HEADER in str(summaries[1][0].content)


async def test_before_each_request_it_is_asked_whether_this_process_may_still_act(bench: Bench, script: Script) -> None:
    bench.summarization = SummarizationSettings(max_messages=4, keep=2)
    asked: list[int] = []

    async def may_act() -> None:
        asked.append(len(script.requests))

    harness = await make_harness(replace(bench.parts(), may_act=may_act), bench.database)
    for number in range(2):
        await collect(harness, context(f"r{number}"), said(f"question {number}"))
    script.steps = ["a summary", "", "the answer"]  # an empty answer is none, and asked for again
    await collect(harness, context("r2"), said("question 2"))
    await harness.close()
    assert asked == list(range(5)) == list(range(len(script.requests)))


async def test_a_summary_is_told_and_paid_for_but_its_text_is_not_shown(bench: Bench, script: Script) -> None:
    bench.summarization = SummarizationSettings(max_messages=4, keep=2)
    async with bench.open() as harness:
        for number in range(2):
            await collect(harness, context(f"r{number}"), said(f"question {number}"))
        script.steps = ["<think>Hm.</think>\n\nTHE SUMMARY", "the answer"]
        events = await collect(harness, context("r2"), said("question 2"))
    told = [getattr(e, "kind", e.type) for e in events if e.type != "text_delta"]
    assert told == ["summarizing", "usage", "summarized", "usage", "finished"]
    assert "".join(e.text for e in events if e.type == "text_delta") == "the answer"
    head = script.requests[-1][1]
    assert str(head.content) == f"{SUMMARY_HEADER}\n\nTHE SUMMARY"
    assert head.additional_kwargs[MARK] == SUMMARY


async def test_a_long_turn_is_cut_between_its_rounds(bench: Bench, script: Script) -> None:
    bench.tools = [look]
    bench.summarization = SummarizationSettings(max_messages=10, keep=4)
    script.check = no_longer_than(13)
    for number in range(20):
        step: Any = calls(("look", {"where": "a"}), ("look", {"where": "b"}), ids=[f"{number}a", f"{number}b"])
        script.steps.append(step)

    def answers_summaries(messages: list[BaseMessage]) -> None:
        no_longer_than(13)(messages)
        if is_summary_prompt(messages):
            script.steps.insert(0, "so far")

    script.check = answers_summaries
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("the question"))
    assert events[-1].type == "finished"
    assert [e.type for e in events].count("tool_ended") == 40
    assert any(str(m.content).startswith("the question") for m in script.requests[-1] if is_users(m))
    assert finished(events).message_id == "r1-21"


async def test_the_token_share_triggers_too(bench: Bench, script: Script) -> None:
    async with bench.open(scripted_settings(context_window=2000)) as harness:
        for number in range(4):
            await collect(harness, context(f"r{number}"), said("word " * 400, f"m{number}"))
    assert any(is_summary_prompt(request) for request in script.requests)
    assert all(len(str(m.content)) < 10_000 for request in script.requests for m in request)


@pytest.mark.parametrize("failures", [1, 3])
async def test_a_summary_that_fails_does_not_end_the_turn(bench: Bench, script: Script, failures: int) -> None:
    bench.summarization = SummarizationSettings(max_messages=4, keep=2)
    async with bench.open() as harness:
        for number in range(2):
            await collect(harness, context(f"r{number}"), said(f"question {number}"))
        for number in range(2, 2 + failures):
            script.steps = [ConnectionResetError("down"), "the answer"]
            events = await collect(harness, context(f"r{number}"), said(f"question {number}"))
            assert finished(events).text == "the answer"
        dropped = any(NO_SUMMARY in str(m.content) for m in script.requests[-1])
    assert dropped == (failures == 3)  # put off first, and when the history is twice as long it is cut all the same


async def test_compact_leaves_a_summary_and_the_thread_usable(bench: Bench, script: Script) -> None:
    async with bench.open() as harness:
        for number in range(5):
            await collect(harness, context(f"r{number}"), said(f"question {number}"))
        script.steps = ["in short"]
        spent = await harness.compact("thread-1", "main")
        assert spent is not None
        assert (spent.model, spent.input_tokens, spent.output_tokens) == ("main", 3, 2)
        short, asked = await harness.history("thread-1"), len(script.requests)
        assert len(short) <= 2
        assert await harness.compact("thread-1", "main") is None
        assert (await harness.history("thread-1"), len(script.requests)) == (short, asked), "no summary of the summary"
        await collect(harness, context("r9"), said("and then?"))
    request = script.requests[-1]
    assert "in short" in str(request[1].content)
    assert len(request) <= 5


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (ConnectionResetError("down"), FailureKind.CONNECTION),
        ("  ", FailureKind.EMPTY),
        ("<think>Hm. The per", FailureKind.EMPTY),
    ],
)
async def test_compact_without_a_summary_changes_nothing(
    bench: Bench, script: Script, step: Exception | str, kind: FailureKind
) -> None:
    async with bench.open() as harness:
        for number in range(5):
            await collect(harness, context(f"r{number}"), said(f"question {number}"))
        before = await harness.history("thread-1")
        script.steps = [step]
        with pytest.raises(ModelFailure) as failure:
            await harness.compact("thread-1", "main")
        assert failure.value.kind is kind
        assert await harness.history("thread-1") == before


async def test_its_calls_count_for_the_models_health(bench: Bench, script: Script) -> None:
    async with bench.open() as harness:
        for number in range(5):
            await collect(harness, context(f"r{number}"), said(f"question {number}"))
        for step, kind in ((ConnectionResetError("down"), FailureKind.CONNECTION), ("in short", None)):
            script.steps = [step]
            with suppress(ModelFailure):
                await harness.compact("thread-1", "main")
            assert [(state.kind, state.failures) for state in bench.health.states] == [(kind, int(kind is not None))]
            await collect(harness, context(f"r-{kind}"), said("more"))


async def test_compacting_a_new_thread_does_nothing(bench: Bench, script: Script) -> None:
    async with bench.open() as harness:
        assert await harness.compact("thread-1", "main") is None
    assert script.requests == []


async def test_images_are_not_summarised(bench: Bench, script: Script, tmp_path: Path) -> None:
    bench.summarization = SummarizationSettings(max_messages=4, keep=2)
    picture = tmp_path / "cat.png"
    Image.new("RGB", (8, 8)).save(picture)
    file = InputFile(path=picture, name="cat.png", mime_type="image/png", size=picture.stat().st_size)
    async with bench.open(scripted_settings(supports_vision=True)) as harness:
        await collect(harness, context("r0"), RunInput(message_id="m0", text="look", files=(file,)))
        assert "base64" in str(script.requests[-1][-1].content)
        for number in range(1, 3):
            await collect(harness, context(f"r{number}"), said(f"question {number}"))
    (prompt,) = [str(request[0].content) for request in script.requests if is_summary_prompt(request)]
    assert "[image]" in prompt
    assert "base64" not in prompt
    assert "base64" not in str(script.requests[-1])
