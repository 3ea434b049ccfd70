"""ModelCallLimit: the last call sums up, without tools, and the count survives a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_core.tools import tool

from harness.events import Outcome
from harness.middleware.limits import SUM_UP
from tests.harness.support import Bench, Script, calls, collect, context, finished, said

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


@tool
async def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing at {where}"


def loops(script: Script, rounds: int) -> None:
    script.steps = [calls(("look", {"where": str(n)}), ids=[f"c{n}"]) for n in range(rounds)]


async def test_the_last_call_has_no_tools_and_sums_up(bench: Bench, script: Script) -> None:
    bench.tools, bench.model_call_limit = [look], 4
    loops(script, 3)
    script.steps.append("I looked three times and found nothing.")
    async with bench.open() as harness:
        end = finished(await collect(harness, context("r1"), said("go")))
        assert (end.outcome, end.text, end.calls) == (Outcome.LIMITED, "I looked three times and found nothing.", 4)
        assert script.tools_offered == [True, True, True, False]
        assert script.requests[-1][-1].content == SUM_UP
        again = finished(await collect(harness, context("r1"), said("go")))
        assert (again.outcome, again.calls) == (Outcome.LIMITED, 4)
        # The note is no part of the thread.
        await collect(harness, context("r2"), said("next"))
    assert SUM_UP not in [m.content for m in script.requests[-1]]


async def test_calls_that_the_model_makes_all_the_same_are_dropped(bench: Bench, script: Script) -> None:
    bench.tools, bench.model_call_limit = [look], 2
    loops(script, 1)
    script.steps.append(calls(("look", {"where": "x"}), text="One more look.", ids=["again"]))
    async with bench.open() as harness:
        end = finished(await collect(harness, context("r1"), said("go")))
    assert (end.outcome, end.text) == (Outcome.LIMITED, "One more look.")


async def test_a_model_without_tools_cannot_loop_either(bench: Bench, script: Script) -> None:
    bench.model_call_limit = 3
    script.steps = [calls(("imagined", {}), text=f"Try {n}.", ids=[f"c{n}"]) for n in range(9)]
    async with bench.open() as harness:
        end = finished(await collect(harness, context("r1"), said("go")))
    assert (end.outcome, end.text) == (Outcome.LIMITED, "Try 2.")


async def test_the_count_goes_on_after_a_restart(bench: Bench, script: Script) -> None:
    bench.tools, bench.model_call_limit = [look], 3
    await bench.ledger.model_called("r1")
    await bench.ledger.model_called("r1")
    async with bench.open() as harness:
        end = finished(await collect(harness, context("r1"), said("go"), attempt=2))
    assert end.outcome is Outcome.LIMITED


async def test_below_the_limit_an_answer_is_whole(bench: Bench, script: Script) -> None:
    bench.tools, bench.model_call_limit = [look], 5
    loops(script, 2)
    seen: list[list[BaseMessage]] = script.requests
    async with bench.open() as harness:
        end = finished(await collect(harness, context("r1"), said("go")))
    assert (end.outcome, len(seen)) == (Outcome.SUCCESS, 3)
