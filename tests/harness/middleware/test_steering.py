"""What is said to a run that works: heard at the next model call, behind the results, once, by any later process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from harness.config import SummarizationSettings
from harness.context import InputFile, RunInput
from harness.graph.messages import is_users, users_text
from harness.graph.state import STEERED
from harness.middleware.summarization import cut_history
from tests.harness.support import (
    Bench,
    MemorySteering,
    Script,
    Step,
    calls,
    collect,
    context,
    finished,
    said,
    scripted_settings,
    unpaired,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from langchain_core.messages import BaseMessage

    from harness.context import RunContext
    from harness.run.runner import HarnessRunner

SECONDS = 45.0


@pytest.fixture
def steering(bench: Bench, script: Script) -> MemorySteering:
    bench.steering = MemorySteering()
    bench.tools = [tell(bench.steering)]
    script.check = require_pairs
    return bench.steering


def tell(steering: MemorySteering) -> Any:
    @tool
    async def work(hears: str) -> str:
        """Work, while the person says something."""
        if hears:
            steering.waiting.setdefault("r1", []).append(said(hears))
        return f"worked: {hears}"

    return work


def require_pairs(messages: list[BaseMessage]) -> None:
    assert unpaired(messages) is None


def users(messages: Sequence[BaseMessage]) -> list[str]:
    return [users_text(message) for message in messages if is_users(message)]


async def thread(harness: HarnessRunner) -> list[BaseMessage]:
    messages: list[BaseMessage] = await harness._messages("thread-1")
    return messages


async def test_it_is_heard_behind_the_results_and_kept_in_the_thread(
    bench: Bench, script: Script, steering: MemorySteering
) -> None:
    script.steps = [calls(("work", {"hears": "in French"})), calls(("work", {"hears": ""})), "voilà"]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("go"))
        kept = await thread(harness)
        script.steps = ["again"]
        await collect(harness, context("r2"), said("thanks"))
        history = [(entry.role, entry.text) for entry in await harness.history("thread-1")]
    assert finished(events).text == "voilà"
    assert [users(request) for request in script.requests] == [
        ["go"],
        ["go", "in French"],
        ["go", "in French"],
        ["go", "in French", "thanks"],
    ]
    second = script.requests[1]
    assert isinstance(second[-2], ToolMessage)
    assert second[-1].id == "inbox-in French"
    assert "written while you were working" in str(second[-1].content)
    assert [message.id for message in kept if isinstance(message, HumanMessage)] == ["inbox-go", "inbox-in French"]
    assert history == [
        ("user", "go"),
        ("user", "in French"),
        ("assistant", "voilà"),
        ("user", "thanks"),
        ("assistant", "again"),
    ]


async def test_a_turn_that_begins_again_asks_its_first_call_as_it_was(
    bench: Bench, script: Script, steering: MemorySteering
) -> None:
    steering.heard["r1"], steering.waiting["r1"] = [said("heard before")], [said("waits")]
    script.steps = [calls(("work", {"hears": ""})), "done"]
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("go"), attempt=2)
    assert [users(request) for request in script.requests] == [
        ["go", "heard before"],
        ["go", "heard before", "waits"],
    ]


async def test_what_comes_too_late_for_a_call_is_left_to_be_a_turn(
    bench: Bench, script: Script, steering: MemorySteering
) -> None:
    async def late() -> str:
        steering.waiting["r1"] = [said("too late")]
        return "the answer"

    script.steps = [late]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("go"))
    assert finished(events).text == "the answer"
    assert len(script.requests) == 1
    assert steering.waiting == {"r1": [said("too late")]}


async def test_what_was_said_before_the_first_call_is_heard_in_it_in_order(
    bench: Bench, script: Script, steering: MemorySteering
) -> None:
    steering.waiting["r1"] = [said("one"), said("two")]
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("go"))
    assert [users(request) for request in script.requests] == [["go", "one", "two"]]


async def test_pictures_and_quotes_come_with_it(
    bench: Bench, script: Script, steering: MemorySteering, tmp_path: Path
) -> None:
    file = InputFile(path=tmp_path / "a.png", name="a.png", mime_type="image/png", size=1)
    steering.waiting["r1"] = [RunInput(message_id="m9", text="look", files=(file,), quote="earlier words")]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("go"))
    heard = str(script.requests[0][-1].content)
    assert "earlier words" in heard
    assert "a.png" in heard
    assert [event.kind for event in events if event.type == "notice"] == ["images_not_seen"]


@dataclass
class Crashing(MemorySteering):
    """Gives what waits, which is then recorded, but the process ends before anybody has it."""

    end: End | None = None

    async def said(self, ctx: RunContext, *, more: bool = True) -> Sequence[RunInput]:
        given = await super().said(ctx, more=more)
        if given and self.end is not None:
            await self.end()
        return given


class End:
    """The moment at which a process ends: whatever comes here never goes on."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()

    async def __call__(self) -> str:
        self.reached.set()
        await asyncio.Event().wait()
        return ""

    async def stop(self, bench: Bench) -> None:
        """Run r1 until then, as a kill leaves it."""
        async with bench.open() as harness:
            running = asyncio.create_task(collect(harness, context("r1"), said("go")))
            async with asyncio.timeout(SECONDS):
                await self.reached.wait()
            running.cancel()
            await asyncio.wait({running})


@pytest.mark.parametrize("window", ["recorded", "in the thread", "answered"])
async def test_after_a_crash_it_is_heard_once(bench: Bench, script: Script, window: str) -> None:
    end = End()
    steering = bench.steering = Crashing(end=end if window == "recorded" else None)
    bench.tools = [tell(steering)]
    script.check = require_pairs
    first = calls(("work", {"hears": "in French"}))
    steps: dict[str, list[Step]] = {
        "recorded": [first],
        "in the thread": [first, end],
        "answered": [first, calls(("work", {"hears": ""})), end],
    }
    script.steps = steps[window]
    await end.stop(bench)
    steering.end = None
    script.steps, script.requests = ["voilà"], []
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("go"), attempt=2, next_seq=50)
        kept = await thread(harness)
    assert finished(events).text == "voilà"
    assert [users(request) for request in script.requests] == [["go", "in French"]]
    assert users(kept) == ["go", "in French"]


async def test_after_a_stop_the_thread_still_has_it(bench: Bench, script: Script, steering: MemorySteering) -> None:
    end = End()
    script.steps = [calls(("work", {"hears": "in French"})), end]
    await end.stop(bench)
    script.steps, script.requests = ["bien"], []
    async with bench.open() as harness:
        await collect(harness, context("r2"), said("go on"))
    assert [users(request) for request in script.requests] == [["go", "in French", "go on"]]


async def test_a_rewind_takes_it_back(bench: Bench, script: Script, steering: MemorySteering) -> None:
    async with bench.open() as harness:
        await collect(harness, context("r0"), said("before"))
        base = (await harness.head("thread-1")).id
        script.steps = [calls(("work", {"hears": "in French"})), "voilà"]
        await collect(harness, context("r1"), said("go"))
        await harness.rewind("thread-1", base)
        assert users(await thread(harness)) == ["before"]
        # The same words, said again, are heard again.
        script.steps = [calls(("work", {"hears": ""})), "voilà"]
        await collect(harness, context("r1"), said("go"))
    assert users(script.requests[-1]) == ["before", "go", "in French"]


async def test_what_was_summarised_since_is_not_heard_again(
    bench: Bench, script: Script, steering: MemorySteering
) -> None:
    bench.summarization = SummarizationSettings(max_messages=10, keep=2)
    rounds = [
        calls(("work", {"hears": f"note {number}" if number < 3 else ""}), ids=[f"c{number}"]) for number in range(9)
    ]
    script.steps = []
    script.check = None

    async def next_step() -> str | AIMessage:
        if "Messages to summarize:" in str(script.requests[-1][0].content):
            return "a summary"
        require_pairs(script.requests[-1])
        return rounds.pop(0) if rounds else "done"

    script.steps = [next_step] * 40
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("go"))
        state = await harness._any_graph().aget_state({"configurable": {"thread_id": "thread-1"}})
    heard = [text for request in script.requests for text in users(request)[-1:]]
    assert heard.count("note 0") == 1
    assert state.values[STEERED] == ["inbox-note 0", "inbox-note 1", "inbox-note 2"]


async def test_without_anything_said_nothing_is_written(bench: Bench, script: Script, steering: MemorySteering) -> None:
    script.steps = [calls(("work", {"hears": ""})), "done"]
    async with bench.open(scripted_settings()) as harness:
        await collect(harness, context("r1"), said("go"))
        state = await harness._any_graph().aget_state({"configurable": {"thread_id": "thread-1"}})
    assert STEERED not in state.values


def test_results_that_nobody_has_read_yet_are_not_cut_off() -> None:
    open_round: list[AnyMessage] = [
        calls(("work", {})),
        ToolMessage("x" * 50, tool_call_id="call-0"),
        HumanMessage("in French"),
    ]
    cut = cut_history([HumanMessage("go"), AIMessage("yes"), *open_round], keep=1, fits=lambda kept: False)
    assert cut.kept == open_round
