"""Scenario `split`: the CPU time of a message by part of the gateway, according to a sampling profiler."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.chats import play_round, warm_up
from tests.bench.classify import LOOP, PARTS, shares, working_samples
from tests.bench.figures import Figure, Outcome
from tests.bench.gauge import cpu_by_thread
from tests.bench.stage import LIFTED, stage
from tests.simulators.process import REPO_ROOT

if TYPE_CHECKING:
    from tests.bench.stage import Stage

CHATS = 50
SAMPLES_PER_SECOND = 100
GRACE_SECONDS = 30.0
PLAIN_ROUNDS = 3


class NoProfiler(Exception):
    """Raised if the profiler is not installed or may not inspect another process; the text says which."""


async def split(seconds: int) -> Outcome:
    """Measure CPU ms per message without the profiler, then divide them by profiling the same load."""
    async with stage(CHATS, LIFTED) as scene, scene.world:
        await warm_up(scene)
        meter = scene.meter()
        meter.begin()
        for number in range(PLAIN_ROUNDS):
            await play_round(scene, scene.people, number + 1)
        meter.end()
        per_message = meter.cpu * 1000 / (PLAIN_ROUNDS * CHATS)
        details = {"cpu_per_msg": round(per_message, 2), "foreign_cpu_share": round(meter.foreign_share, 3)}
        try:
            found, samples = await _profiled(scene, seconds)
        except NoProfiler as reason:
            return Outcome(_figures(per_message, {}, str(reason)), details)
    return Outcome(_figures(per_message, found, "the profile is empty"), {**details, "samples": samples})


def _figures(per_message: float, found: dict[str, float], reason: str) -> list[Figure]:
    if not found:
        return [Figure(part, None, "ms", reason=reason) for part in (*PARTS, LOOP)]
    return [Figure(part, share * per_message, "ms") for part, share in found.items()]


async def _profiled(scene: Stage, seconds: int) -> tuple[dict[str, float], int]:
    """The shares, and the number of samples. Raises NoProfiler."""
    program = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if program is None:
        raise NoProfiler("py-spy is not installed")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "profile"
        options = ("--duration", str(seconds), "--rate", str(SAMPLES_PER_SECOND))
        process = await asyncio.create_subprocess_exec(
            *(program, "record", "--pid", str(scene.pid), "--format", "raw", "--threads", "--full-filenames"),
            *("--nolineno", "--output", str(output), *options),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        before = cpu_by_thread(scene.pid)
        told = asyncio.create_task(process.communicate(), name="py-spy")
        try:
            async with asyncio.timeout(seconds + GRACE_SECONDS):
                number = PLAIN_ROUNDS
                while not told.done():
                    number += 1
                    await play_round(scene, scene.people, number)
            said, _ = await told
        finally:
            if process.returncode is None:
                process.kill()
        worked = {thread: cpu - before.get(thread, 0.0) for thread, cpu in cpu_by_thread(scene.pid).items()}
        if not output.exists():
            raise NoProfiler(
                f"py-spy: {(said.decode(errors='replace').strip().splitlines() or ['it said nothing'])[-1]}"
            )
        lines = output.read_text().splitlines()
    return shares(lines, worked, REPO_ROOT), working_samples(lines)
