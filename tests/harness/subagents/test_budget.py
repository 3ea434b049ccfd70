"""Subagents spend from the budget of their run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.events import Failed, FailureKind, Outcome, ToolEnded
from harness.ports import Overdraft
from tests.harness.subagents.crew_bench import Cast, delegates
from tests.harness.support import Bench, MemoryBudget, Script, calls, collect, context, finished, said

if TYPE_CHECKING:
    from harness.context import RunContext


class Overdrawn(MemoryBudget):
    """Every overdraft is great."""

    small = False

    async def overdraft(self, ctx: RunContext) -> Overdraft | None:
        found = await super().overdraft(ctx)
        return Overdraft(found.name, small=self.small) if found is not None else None


class Lenient(Overdrawn):
    """Every overdraft is small."""

    small = True


async def test_a_subagent_sums_up_too_and_then_its_run(bench: Bench, script: Script) -> None:
    bench.budget = Lenient(calls=2)
    cast = Cast({"lead": [delegates("a"), "as far as I got"], "a": [calls(("ls", {})), "half a report"]})
    cast.play(script)
    async with bench.open() as harness:
        end = finished(await collect(harness, context("r1"), said("go")))
    assert cast.results()[0].endswith("half a report")
    assert (end.outcome, end.text, end.budget) == (Outcome.LIMITED, "as far as I got", "run.calls")
    assert bench.budget.asked == {"r1": 4}


async def test_a_great_overdraft_fails_the_task_and_the_run(bench: Bench, script: Script) -> None:
    bench.budget = Overdrawn(calls=1)
    cast = Cast({"lead": [delegates("a"), "never asked"], "a": ["never asked"]})
    cast.play(script)
    async with bench.open() as harness:
        *_, ended, failed = await collect(harness, context("r1"), said("go"))
    assert isinstance(ended, ToolEnded)
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.detail_for_log) == (FailureKind.BUDGET, "run.calls")
    assert len(script.requests) == 1
