"""Scenario `chain`: runs tests.bench.chain in a separate process against the model simulator."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

from tests.bench.figures import Figure, Outcome, Target
from tests.simulators.model.client import ModelSimulator
from tests.simulators.process import REPO_ROOT, SimulatorProcess, child_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulators.model.records import Record

SECONDS = 300.0
ADDED_MS = 3.0
"""Most CPU per model round that the default chain may add."""
MODEL_ROUNDS = 3
"""Number in a turn: two call a tool, the third is the answer."""
BARE, CHAIN, STORE = "agent_without_chain", "default_chain", "default_chain_on_store"


async def chain_cost(turns: int) -> Outcome:
    """Measure CPU ms per model round without and with the chain, in turns with two rounds of tools."""
    async with SimulatorProcess("tests.simulators.model") as process, ModelSimulator(process.port) as model:
        found = await _measured(model, turns)
        if found is None:
            return Outcome(problems=["the chain's process failed; see its message above"])
        asked = await model.completions()
    measured: dict[str, float] = found["cpu_ms"]
    figures = [Figure(f"cpu_per_round_{name}", value, "ms") for name, value in measured.items()]
    figures += [
        Figure("added_by_chain", measured[CHAIN] - measured[BARE], "ms", Target(ADDED_MS)),
        Figure("added_by_chain_on_store", measured[STORE] - measured[BARE], "ms"),
    ]
    details = {"turns": turns, "model_rounds_of_a_turn": MODEL_ROUNDS, "model_calls": len(asked)}
    return Outcome(figures, details, [*found["problems"], *unlike(asked)])


async def _measured(model: ModelSimulator, turns: int) -> dict[str, Any] | None:
    """The output of the child; None if it failed."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.chain", model.base_url, model.api_key, str(turns)),
        cwd=REPO_ROOT,
        env=child_environment(),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(SECONDS):
            output, _ = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode:
        return None
    found: dict[str, Any] = json.loads(output)
    return found


def unlike(asked: Sequence[Record]) -> list[str]:
    """Reasons why the comparison is unfair: requests that were refused, or that differ in prompt or tools."""
    refused = sorted({record.error for record in asked if record.error})
    begins = {json.dumps([each.body["messages"][0], each.body.get("tools")], sort_keys=True) for each in asked}
    problems = [f"a request was refused: {error}" for error in refused]
    return problems if len(begins) == 1 else [*problems, f"the requests have {len(begins)} different beginnings"]
