"""BudgetStop: what is used up ends the run honestly, with one last call where that can be afforded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

from harness.events import Failed, FailureKind, Outcome
from harness.middleware.limits import NO_BUDGET
from harness.ports import Overdraft
from tests.harness.support import Bench, MemoryBudget, Script, calls, collect, context, finished, said

if TYPE_CHECKING:
    from harness.context import RunContext


@tool
async def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing at {where}"


class Overdrawn(MemoryBudget):
    """So many calls are affordable; a further one is far too much."""

    async def overdraft(self, ctx: RunContext) -> Overdraft | None:
        found = await super().overdraft(ctx)
        return Overdraft(found.name, small=False) if found is not None else None


def looks(script: Script, rounds: int) -> None:
    script.steps = [calls(("look", {"where": str(n)}), ids=[f"c{n}"]) for n in range(rounds)]


async def test_a_small_overdraft_is_summed_up_without_tools(bench: Bench, script: Script) -> None:
    bench.tools, bench.budget = [look], MemoryBudget(calls=2)
    looks(script, 2)
    script.steps.append("I looked twice and found nothing.")
    async with bench.open() as harness:
        end = finished(await collect(harness, context("r1"), said("go")))
        assert (end.outcome, end.text) == (Outcome.LIMITED, "I looked twice and found nothing.")
        assert (end.budget, end.calls) == ("run.calls", None)
        assert script.tools_offered == [True, True, False]
        assert script.requests[-1][-1].content == NO_BUDGET
        again = finished(await collect(harness, context("r1"), said("go")))
        assert again.budget == "run.calls", "a restart tells the same"
        bench.budget.calls = None
        await collect(harness, context("r2"), said("next"))
    assert NO_BUDGET not in [message.content for message in script.requests[-1]], "the note is no part of the thread"


async def test_calls_in_the_last_word_are_dropped(bench: Bench, script: Script) -> None:
    bench.tools, bench.budget = [look], MemoryBudget(calls=1)
    looks(script, 1)
    script.steps.append(calls(("look", {"where": "x"}), text="One more look.", ids=["again"]))
    async with bench.open() as harness:
        end = finished(await collect(harness, context("r1"), said("go")))
    assert (end.outcome, end.text, end.budget) == (Outcome.LIMITED, "One more look.", "run.calls")


async def test_a_great_overdraft_ends_the_run_without_a_further_call(bench: Bench, script: Script) -> None:
    bench.tools, bench.budget = [look], Overdrawn(calls=1)
    looks(script, 5)
    async with bench.open() as harness:
        end = (await collect(harness, context("r1"), said("go")))[-1]
        assert isinstance(end, Failed)
        assert (end.kind, end.detail_for_log) == (FailureKind.BUDGET, "run.calls")
        assert len(script.requests) == 1
        assert bench.ledger.counts == {"r1": 1}
        bench.budget.calls = None
        script.steps = ["whole again"]
        assert finished(await collect(harness, context("r2"), said("next"))).text == "whole again"
    asked = [message.content for message in script.requests[-1] if isinstance(message, HumanMessage)]
    assert str(asked[0]).startswith("go")
