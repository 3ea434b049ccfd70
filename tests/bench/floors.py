"""Scenario `floor`: runs tests.bench.floor in a process of its own against the simulators."""

from __future__ import annotations

import asyncio
import json
import sys

from tests.bench.figures import Figure, Outcome, spread
from tests.bench.stage import stage
from tests.simulators.process import REPO_ROOT, child_environment
from tests.simulators.telegram.seen import ALICE

FLOOR_SECONDS = 120.0


async def floors(turns: int) -> Outcome:
    """CPU ms of the bare libraries, and ms until a turn's request arrives at the model; a chat is made known first, as
    only people can begin one."""
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
