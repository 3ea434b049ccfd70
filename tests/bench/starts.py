"""Scenario `start`: time from the process's start to its first poll, and memory when idle."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

from tests.bench.figures import Figure, Outcome, Target, percentile, spread
from tests.bench.gauge import handles, memory
from tests.bench.stage import stage
from tests.bench.timeline import POLL

if TYPE_CHECKING:
    from tests.bench.stage import Stage


LIBRARIES = "import langgraph, langchain_openai, telegram"


async def starts(times: int, idle_seconds: float) -> Outcome:
    """Measure starts. The first creates the databases and is counted separately; `times` more follow on the same data,
    the last one then idles. They alternate with a Python that only imports the libraries any Telegram agent needs."""
    async with stage(1, {}) as scene:
        first = await start(scene)
        await scene.world.stop()
        seconds, bare = [], []
        for number in range(times):
            bare.append(await _imported())
            seconds.append(await start(scene))
            if number < times - 1:
                await scene.world.stop()
        await asyncio.sleep(idle_seconds)
        idle, (files, threads) = memory(scene.pid), handles(scene.pid)
        await scene.world.stop()
    return Outcome(
        [
            *spread("first_poll", seconds, "s"),
            Figure("libraries_p50", percentile(bare, 50), "s"),
            Figure("to_libraries", percentile(seconds, 50) / percentile(bare, 50), "x", Target(2)),
            Figure("very_first_start", first, "s"),
            Figure("rss_idle", idle.rss, "MB", Target(130)),
            Figure("pss_idle", idle.pss, "MB"),
        ],
        {"starts": times, "idle_seconds": idle_seconds, "open_files_idle": files, "threads_idle": threads},
    )


async def _imported() -> float:
    """Seconds that importing the libraries alone takes."""
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", LIBRARIES)
    if await process.wait():
        raise RuntimeError(f"{LIBRARIES!r} failed, see above")
    return time.monotonic() - began


async def start(scene: Stage) -> float:
    """Seconds from the launch of the interpreter to the arrival of the first poll at the platform."""
    launched = time.monotonic()
    await scene.world.start()
    polls = [record.arrived for record in await scene.telegram.records(POLL)]
    return min(arrived for arrived in polls if arrived > launched) - launched
