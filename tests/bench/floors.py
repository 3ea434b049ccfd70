"""Scenario `floor`: runs tests.bench.floor in a separate process against the simulators.

Scenario `to-floor`: compares the gateway to it, alternately, because the speed of a machine varies.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench.chats import Load, chats_at_once
from tests.bench.figures import Figure, Outcome, Target, percentile, spread
from tests.bench.stage import stage
from tests.simulators.process import REPO_ROOT, child_environment
from tests.simulators.telegram.seen import ALICE

if TYPE_CHECKING:
    from collections.abc import Awaitable

FLOOR_SECONDS = 120.0
COMPARED = (
    ("cpu_50_chats", "chats-50", "cpu_per_msg", "langgraph_turn", Target(1.1)),
    ("cpu_1_chat", "chats-1", "cpu_per_msg", "langgraph_turn_alone", Target(2)),
    ("inbound_p50", "chats-1", "inbound_p50", "request_alone_p50", Target(1.5)),
)
"""(name, scenario, its figure, the floor's figure, target) of each ratio."""


@dataclass(frozen=True)
class Turns:
    """How often the floor and the gateway alternate, and how much each does then."""

    pairs: int
    floor: int
    rounds: int
    alone: int


async def floors(turns: int) -> Outcome:
    """Measure CPU ms of the bare libraries, and ms until a turn's request arrives at the model. The chat is created
    first, because only people can begin one."""
    async with stage(1, {}) as scene:
        await scene.telegram.add_chat(ALICE.dm())
        arguments = (scene.model.base_url, scene.model.api_key, scene.telegram.root, scene.telegram.token, str(turns))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.bench.floor", *arguments),
            cwd=REPO_ROOT,
            env=child_environment(),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(FLOOR_SECONDS):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        asked = sorted(record.started for record in await scene.model.completions())
    if process.returncode:
        return Outcome(problems=[f"the floor's process ended with {process.returncode}; see its message above"])
    measured = json.loads(output)
    began = measured.pop("alone_began")
    to_model = [(next(at for at in asked if at >= turn) - turn) * 1000 for turn in began]
    figures = [Figure(name, value, "ms") for name, value in measured.items()]
    return Outcome([*figures, *spread("request_alone", to_model, "ms")], {"turns": turns})


async def to_floor(turns: Turns) -> Outcome:
    """Measure median ratios: of the gateway's figure to the mean of the floors before and after it."""
    outcome = Outcome()
    floor = [await _figures(outcome, floors(turns.floor))]
    ratios: dict[str, list[float]] = {name: [] for name, *_ in COMPARED}
    for _ in range(turns.pairs):
        loads = {"chats-50": Load(50, turns.rounds), "chats-1": Load(1, turns.alone)}
        measured = {name: await _figures(outcome, chats_at_once(load)) for name, load in loads.items()}
        floor.append(await _figures(outcome, floors(turns.floor)))
        for name, scenario, figure, bare, _aim in COMPARED:
            ratios[name].append(measured[scenario][figure] * 2 / (floor[-2][bare] + floor[-1][bare]))
    outcome.figures = [Figure(name, percentile(ratios[name], 50), "x", aim) for name, *_, aim in COMPARED]
    outcome.details = {"ratios": {name: [round(each, 2) for each in found] for name, found in ratios.items()}}
    return outcome


async def _figures(whole: Outcome, part: Awaitable[Outcome]) -> dict[str, float]:
    """The part's figures; adds its problems to the whole."""
    found = await part
    whole.problems += found.problems
    return {figure.name: figure.value for figure in found.figures if figure.value is not None}
