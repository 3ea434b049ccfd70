"""Scenario `start`: from the process's start to its first poll, and what it holds when it idles."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tests.bench.figures import Figure, Outcome, Target, spread
from tests.bench.gauge import handles, memory
from tests.bench.stage import stage
from tests.bench.timeline import POLL

if TYPE_CHECKING:
    from tests.bench.stage import Stage


async def starts(times: int, idle_seconds: float) -> Outcome:
    """The very first start makes the databases and is apart; `times` more follow on the same data, the last idles."""
    async with stage(1, {}) as scene:
        first = await start(scene)
        await scene.world.stop()
        seconds = []
        for number in range(times):
            seconds.append(await start(scene))
            if number < times - 1:
                await scene.world.stop()
        await asyncio.sleep(idle_seconds)
        idle, (files, threads) = memory(scene.pid), handles(scene.pid)
        await scene.world.stop()
    return Outcome(
        [
            *spread("first_poll", seconds, "s", {50: Target(0.9)}),
            Figure("very_first_start", first, "s"),
            Figure("rss_idle", idle.rss, "MB", Target(130)),
            Figure("pss_idle", idle.pss, "MB"),
        ],
        {"starts": times, "idle_seconds": idle_seconds, "open_files_idle": files, "threads_idle": threads},
    )


async def start(scene: Stage) -> float:
    """Seconds from the launch of the interpreter to the arrival of the first poll at the platform."""
    launched = time.monotonic()
    await scene.world.start()
    polls = [record.arrived for record in await scene.telegram.records(POLL)]
    return min(arrived for arrived in polls if arrived > launched) - launched
