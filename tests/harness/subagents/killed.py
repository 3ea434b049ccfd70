"""A run with two subagents in a process of its own, for test_kill: `python -m tests.harness.subagents.killed FOLDER`.

Prints a word when both are at work in a tool, then waits there to be killed. Shares its folder with the test.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from langchain_core.tools import tool

from harness.subagents.config import SubagentsSettings
from tests.harness.killed import FileEffectLog
from tests.harness.subagents.crew_bench import Cast, delegates
from tests.harness.support import SCRIPTS, Bench, HeldClock, Script, calls, collect, context, said

WORKING = "working"


def make_bench(folder: Path, *, waits: bool) -> Bench:
    """The same tools, log and file in both processes."""
    begun: list[str] = []

    @tool
    async def act(name: str) -> str:
        """Do what must not be done twice."""
        with (folder / "acts").open("a") as file:
            file.write(name + "\n")
        begun.append(name)
        if waits and name != "first":
            if len(begun) == 3:
                print(WORKING, flush=True)
            await asyncio.Event().wait()
        return f"done {name}"

    effects = FileEffectLog(folder / "effects")
    return Bench(
        folder / "checkpoints.sqlite", effects=effects, tools=[act], clock=HeldClock(), subagents=SubagentsSettings()
    )


async def main(folder: Path) -> None:
    script = SCRIPTS["main"] = Script()
    first, second = calls(("act", {"name": "first"})), calls(("act", {"name": "second"}), ids=["call-1"])
    Cast(
        {
            "lead": [delegates("a", "b")],
            "a": [first, second],
            "b": [calls(("act", {"name": "other"}))],
        }
    ).play(script)
    async with make_bench(folder, waits=True).open() as harness:
        await collect(harness, context("r1"), said("go"))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
