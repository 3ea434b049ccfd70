"""However a subagent ends, the lead agent hears how, its slot is free, and nothing of it goes on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.tools import BaseTool, tool

from harness.config import LlmSettings
from harness.events import FailureKind
from harness.events import SubagentState as State
from harness.ports import MemoryRunLedger
from harness.subagents.config import SubagentSettings, SubagentsSettings
from tests.harness.subagents.crew_bench import LONG, Cast, Stuck, delegates, of_type
from tests.harness.support import Bench, HeldClock, Script, calls, collect, context, finished, said

if TYPE_CHECKING:
    from harness.events import AnyRunEvent


async def played(bench: Bench, script: Script, cast: Cast, *, late: asyncio.Event | None = None) -> list[AnyRunEvent]:
    """late: once it is set, fifteen minutes pass."""
    cast.play(script)
    async with bench.open() as harness, asyncio.timeout(LONG):
        running = asyncio.create_task(collect(harness, context("r1"), said("go")))
        if late is not None:
            await late.wait()
            assert isinstance(bench.clock, HeldClock)
            await bench.clock.tick(900)
        return await running


def ends(events: list[AnyRunEvent]) -> dict[str, State]:
    return {event.call_id: event.state for event in of_type(events, "subagent_ended")}


async def test_a_stuck_one_ends_at_its_time_limit_and_holds_nobody_else(bench: Bench, script: Script) -> None:
    stuck = Stuck()
    look = calls(("ls", {}), text="So far I found two.")
    cast = Cast({"lead": [delegates("slow", "quick"), "one of two"], "slow": [look, stuck], "quick": ["three"]})
    events = await played(bench, script, cast, late=stuck.entered)
    assert ends(events) == {"task-slow": State.TIMED_OUT, "task-quick": State.COMPLETED}
    assert stuck.left.is_set()
    slow, quick = cast.results()
    assert slow.startswith(
        "[general-purpose: timed_out, 2 model calls, 900 s]\nThe task was stopped at its time limit of"
    )
    assert "900 seconds. It is not done" in slow
    assert slow.endswith("which may be unfinished and wrong:\nSo far I found two.")
    assert quick.endswith("three")
    assert finished(events).text == "one of two"


async def test_one_that_had_said_nothing(bench: Bench, script: Script) -> None:
    stuck = Stuck()
    cast = Cast({"lead": [delegates("slow"), "nothing"], "slow": [stuck]})
    await played(bench, script, cast, late=stuck.entered)
    assert cast.results()[0].endswith("It had said nothing yet.")


async def test_calls_of_subagents_count_for_the_models_health(bench: Bench, script: Script) -> None:
    bench.llm = LlmSettings(patience=0, max_retries=0)
    seen: list[tuple[object, int]] = []

    async def looked_at() -> str:
        seen.extend((state.kind, state.failures) for state in bench.health.states)
        return "done"

    await played(bench, script, Cast({"lead": [delegates("bad"), looked_at], "bad": [ConnectionError("down")]}))
    assert seen == [(FailureKind.CONNECTION, 1)]
    assert [state.works for state in bench.health.states] == [True]


async def test_one_that_does_not_even_end_when_cancelled_is_left_behind(
    bench: Bench, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    bench.subagents = SubagentsSettings(max_concurrent=1)
    entered, release = asyncio.Event(), asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Do not stop."""
        entered.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    bench.tools = [stubborn]
    cast = Cast(
        {
            "lead": [delegates("slow"), delegates("next"), "done"],
            "slow": [calls(("stubborn", {})), "never said"],
            "next": ["its slot was free"],
        }
    )
    events = await played(bench, script, cast, late=entered)
    release.set()
    assert ends(events) == {"task-slow": State.TIMED_OUT, "task-next": State.COMPLETED}
    assert "is abandoned" in caplog.text


async def test_each_type_has_a_time_limit_of_its_own(bench: Bench, script: Script) -> None:
    hasty = SubagentSettings(description="quick looks", system_prompt="Be quick.", timeout_seconds=5)
    bench.subagents = SubagentsSettings(types={"hasty": hasty})
    stuck = Stuck()
    cast = Cast({"lead": [delegates("slow", kind="hasty"), "done"], "slow": [stuck]})
    await played(bench, script, cast, late=stuck.entered)
    assert "its time limit of 5 seconds" in cast.results()[0]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ConnectionError("secret host 10.1.2.3"), "its model main could not answer (connection)"),
        (RuntimeError("secret host 10.1.2.3"), "an internal error ended it (RuntimeError)"),
    ],
)
async def test_a_model_that_fails_fails_the_task_and_not_the_run(
    bench: Bench, script: Script, error: Exception, why: str
) -> None:
    bench.llm = LlmSettings(patience=0, max_retries=0)
    cast = Cast({"lead": [delegates("bad", "good"), "half"], "bad": [error], "good": ["good"]})
    events = await played(bench, script, cast)
    assert ends(events) == {"task-bad": State.FAILED, "task-good": State.COMPLETED}
    assert finished(events).text == "half"
    bad, _ = cast.results()
    assert f"The task failed: {why}. It is not done." in bad
    assert "10.1.2.3" not in bad


async def test_a_tool_that_fails_is_the_subagents_business(bench: Bench, script: Script) -> None:
    @tool
    async def broken() -> str:
        """Break."""
        raise ValueError("no")

    bench.tools = [broken]
    cast = Cast({"lead": [delegates("a"), "fine"], "a": [calls(("broken", {})), "I went around it"]})
    events = await played(bench, script, cast)
    assert ends(events) == {"task-a": State.COMPLETED}
    assert "broken failed because of a defect" in cast.results("a")[0]


async def test_cancelling_the_run_stops_all_of_them_within_a_second(bench: Bench, script: Script) -> None:
    bench.subagents = SubagentsSettings(max_concurrent=2)
    first, second = Stuck(), Stuck()
    cast = Cast({"lead": [delegates("a"), delegates("b")], "a": [first], "b": [second]})
    cast.play(script)
    async with bench.open() as harness, asyncio.timeout(LONG):
        runs = [asyncio.create_task(collect(harness, context(f"r{n}", thread=f"t{n}"), said("go"))) for n in (1,)]
        await first.entered.wait()
        began = asyncio.get_running_loop().time()
        runs[0].cancel()
        await asyncio.wait(runs)
        assert asyncio.get_running_loop().time() - began < 1
        assert first.left.is_set()
        # The slots are free: this one works, though nobody may have more than one of the two.
        again = asyncio.create_task(collect(harness, context("r9", thread="t9"), said("go")))
        await second.entered.wait()
        again.cancel()
        await asyncio.wait({again})


async def test_cancelling_the_run_takes_those_that_wait_out_of_the_line(bench: Bench, script: Script) -> None:
    bench.subagents = SubagentsSettings(max_concurrent=1)
    stuck = Stuck()
    cast = Cast({"lead": [delegates("a", "b"), delegates("c"), "done"], "a": [stuck], "c": ["free"]})
    cast.play(script)
    async with bench.open() as harness, asyncio.timeout(LONG):
        run = asyncio.create_task(collect(harness, context("r1"), said("go")))
        await stuck.entered.wait()
        run.cancel()
        await asyncio.wait({run})
        events = await collect(harness, context("r2"), said("again"))
    assert finished(events).text == "done"
    assert "b" not in cast.asked


async def test_after_a_stop_the_thread_says_that_the_task_was_interrupted(bench: Bench, script: Script) -> None:
    stuck = Stuck()
    cast = Cast({"lead": [delegates("a"), "fine"], "a": [stuck]})
    cast.play(script)
    async with bench.open() as harness, asyncio.timeout(LONG):
        run = asyncio.create_task(collect(harness, context("r1"), said("go")))
        await stuck.entered.wait()
        run.cancel()
        await asyncio.wait({run})
        await collect(harness, context("r2"), said("again"))
    assert "This tool call was interrupted" in cast.results()[0]


async def test_it_reports_early_when_its_turns_are_used_up(bench: Bench, script: Script) -> None:
    bench.subagents = SubagentsSettings(types={"general-purpose": SubagentSettings(max_turns=3)})
    look = [calls(("ls", {"path": f"/mnt/user-data/{name}"})) for name in ("workspace", "uploads")]
    cast = Cast({"lead": [delegates("a"), "done"], "a": [*look, "I got this far"]})
    events = await played(bench, script, cast)
    assert ends(events) == {"task-a": State.COMPLETED}
    assert "has used up its model calls" in str(cast.asked["a"][-1][-1].content)
    (result,) = cast.results()
    assert "report early" in result
    assert result.endswith("I got this far")


async def test_its_calls_leave_the_runs_own_count_alone(bench: Bench, script: Script) -> None:
    bench.model_call_limit = 3
    look = [calls(("ls", {"path": f"/mnt/user-data/{name}"})) for name in ("workspace", "uploads", "outputs")]
    cast = Cast({"lead": [delegates("a"), "the answer"], "a": [*look, "report"]})
    events = await played(bench, script, cast)
    assert finished(events).calls is None
    assert isinstance(bench.ledger, MemoryRunLedger)
    assert bench.ledger.counts == {"r1": 2}


async def test_one_that_repeats_itself_is_stopped(bench: Bench, script: Script) -> None:
    again = calls(("ls", {}))
    cast = Cast({"lead": [delegates("a"), "done"], "a": [*[again] * 5, "I was going round in circles"]})
    await played(bench, script, cast)
    assert "report early" in cast.results()[0]


async def test_several_tools_inside_run_side_by_side(bench: Bench, script: Script) -> None:
    together = asyncio.Barrier(2)

    @tool
    async def meet(name: str) -> str:
        """Meet."""
        await together.wait()
        return f"met {name}"

    tools: list[BaseTool] = [meet]
    bench.tools = tools
    both: Any = calls(("meet", {"name": "x"}), ("meet", {"name": "y"}))
    cast = Cast({"lead": [delegates("a"), "done"], "a": [both, "report"]})
    await played(bench, script, cast)
    assert cast.results("a") == ["met x", "met y"]
