"""Scenario `subagents-50x3`: many concurrent runs, each with three tasks for subagents, and one whose task is stuck."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.bench.chats import warm_up
from tests.bench.figures import Figure, Outcome, Target, spread
from tests.bench.gauge import watching
from tests.bench.stage import LIFTED, stage
from tests.bench.timeline import calls
from tests.flow.gateway import merged
from tests.simulators.sandbox.provider import USE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.bench.gauge import Meter, Watch
    from tests.bench.stage import Stage
    from tests.bench.timeline import Call
    from tests.simulators.model.records import Record
    from tests.simulators.telegram.seen import Delivery, Person

TASKS = 3
STUCK_SECONDS = 4.0
"""The time limit of the task in which the model never answers."""
ROUND_SECONDS = 120.0
WORK = [f"!tool ls {{}}\n!tokens 20 10 part-{number}" for number in range(TASKS)]
"""The work of each subagent: it lists files and reports, with 20 tokens, one every 10 ms."""
ANSWER, GAVE_UP = "All three are done.", "One of them did not answer."
SETTINGS: dict[str, Any] = {
    "sandbox": {"use": USE},
    "subagents": {
        "types": {"hasty": {"description": "gives up", "system_prompt": "Be quick.", "timeout_seconds": STUCK_SECONDS}}
    },
}


@dataclass(frozen=True)
class Runs:
    """The number of concurrent runs, and of rounds."""

    runs: int
    rounds: int


async def delegation(size: Runs) -> Outcome:
    """Measure capacity and cost of the gateway without the account's rate limits."""
    async with stage(size.runs + 1, merged(LIFTED, SETTINGS)) as scene, scene.world:
        crowd, stuck = scene.people[: size.runs], scene.people[size.runs]
        await warm_up(scene)
        await _ask(scene, crowd[:1], ANSWER)  # builds the graphs of subagents
        began = time.monotonic()
        meter = scene.meter()
        async with watching(scene.pid) as watch:
            meter.begin()
            ending = asyncio.create_task(_ask(scene, [stuck], GAVE_UP), name="stuck run")
            for _ in range(size.rounds):
                await _ask(scene, crowd, ANSWER)
            meter.end()
            await ending
        await scene.until_quiet()
        return await _outcome(scene, size, began, meter, watch)


async def _ask(scene: Stage, people: Sequence[Person], answer: str) -> None:
    """Let all write at the same moment; return once all have the answer, or when that took too long."""
    kind, prompts = ("hasty", ["!hang"]) if answer == GAVE_UP else ("general-purpose", WORK)
    tasks = [{"description": "look around", "prompt": prompt, "subagent_type": kind} for prompt in prompts]
    before = await scene.telegram.count_showing(answer)
    text = f"!tools {' '.join(f'task {json.dumps(task)}' for task in tasks)}\n!say {answer}"
    await scene.say_at_once(people, lambda _: text)
    await scene.until_shown(answer, before + len(people), ROUND_SECONDS)


async def _outcome(scene: Stage, size: Runs, began: float, meter: Meter, watch: Watch) -> Outcome:
    deliveries = [each for each in await scene.telegram.deliveries() if each.queued_at >= began]
    shown = calls(each for each in await scene.telegram.records() if each.arrived >= began)
    asked = [each for each in await scene.model.completions() if each.started >= began]
    whole = whole_seconds(deliveries, shown, ANSWER)
    stuck = whole_seconds(deliveries, shown, GAVE_UP)
    runs = size.runs * size.rounds
    missing = runs - len(whole), 1 - len(stuck)
    problems = [
        f"{count} run(s) did not end in {ANSWER if each == 0 else GAVE_UP!r}"
        for each, count in enumerate(missing)
        if count
    ]
    figures = [
        *spread("run", whole, "s"),
        Figure("subagents_per_s", runs * TASKS / _busy(whole, size), "/s")
        if whole
        else Figure("subagents_per_s", None, "/s"),
        Figure("cpu_per_run", meter.cpu * 1000 / runs, "ms"),
        Figure("cpu_per_model_call", meter.cpu * 1000 / max(1, len(asked)), "ms"),
        Figure("most_model_calls_at_once", most_at_once(asked), "calls"),
        Figure("stuck_run", stuck[0] if stuck else None, "s", Target(STUCK_SECONDS + 5)),
        Figure("rss", watch.highest.rss, "MB"),
        Figure("pss", watch.highest.pss, "MB"),
    ]
    details = {"runs": runs, "tasks": runs * TASKS, "foreign_cpu_share": round(meter.foreign_share, 3)}
    return Outcome(figures, {**details, "model_calls": len(asked)}, problems)


def _busy(whole: Sequence[float], size: Runs) -> float:
    """Seconds of all rounds, each as long as its slowest run."""
    rounds = [whole[start : start + size.runs] for start in range(0, len(whole), size.runs)]
    return sum(max(each) for each in rounds)


def whole_seconds(deliveries: Iterable[Delivery], shown: Iterable[Call], answer: str) -> list[float]:
    """Seconds from each message to its answer, by round: the k-th answer of a chat belongs to its k-th message."""
    ends: dict[int, list[float]] = defaultdict(list)
    for call in shown:
        if call.text == answer:
            ends[call.chat_id].append(call.at)
    rounds: dict[int, list[float]] = defaultdict(list)
    said: dict[int, int] = defaultdict(int)
    for each in sorted(deliveries, key=lambda each: each.queued_at):
        if each.chat_id is None:
            continue
        number = said[each.chat_id]
        said[each.chat_id] += 1
        if number < len(ends[each.chat_id]):
            rounds[number].append(ends[each.chat_id][number] - each.queued_at)
    return [seconds for number in sorted(rounds) for seconds in rounds[number]]


def most_at_once(asked: Iterable[Record]) -> int:
    """Most requests that were open at the model at the same time."""
    moments = [(each.started, 1) for each in asked] + [(each.ended, -1) for each in asked if each.ended is not None]
    most = now = 0
    for _, change in sorted(moments):
        now += change
        most = max(most, now)
    return most
