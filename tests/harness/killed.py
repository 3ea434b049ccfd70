"""A run in a process of its own, for test_kill: `python -m tests.harness.killed FOLDER MOMENT`.

Prints one word when the moment has come, then waits there to be killed. Shares its folder with the test.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.tools import BaseTool, tool

from harness.ports import Effect, EffectKey
from tests.harness.support import SCRIPTS, Bench, Script, Step, calls, collect, context, said

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass
class FileEffectLog:
    """EffectLog in a file of JSON lines; what it wrote survives the process."""

    path: Path
    records: dict[EffectKey, Effect] = field(default_factory=dict)
    one_done: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            thread, run, call, state, result = json.loads(line)
            self.records[EffectKey(thread_id=thread, run_id=run, call_id=call)] = Effect(state=state, result=result)

    async def begin(self, key: EffectKey, tool: str) -> Effect | None:
        known = self.records.get(key)
        if known is None:
            self._write(key, Effect(state="started"))
        return known

    async def done(self, key: EffectKey, result: str) -> None:
        self._write(key, Effect(state="done", result=result))
        self.one_done.set()

    def _write(self, key: EffectKey, effect: Effect) -> None:
        self.records[key] = effect
        with self.path.open("a") as file:
            file.write(json.dumps([key.thread_id, key.run_id, key.call_id, effect.state, effect.result]) + "\n")


def make_bench(folder: Path, moment: str) -> Bench:
    """The same tools, log and file in both processes. moment "": nothing waits."""
    begun: list[str] = []
    effects = FileEffectLog(folder / "effects")

    async def act(name: str, waits: bool) -> str:
        with (folder / "acts").open("a") as file:
            file.write(name + "\n")
        begun.append(name)
        if waits:
            if len(begun) == 3:
                await effects.one_done.wait()  # the quick call's
                await reached(moment)
            await asyncio.Event().wait()
        return f"done {name}"

    @tool
    async def quick() -> str:
        """Ends at once."""
        return await act("quick", False)

    @tool
    async def slow() -> str:
        """Does not end before the kill."""
        return await act("slow", moment == "tools")

    @tool
    async def repeatable() -> str:
        """The same, but may be run again."""
        return await act("repeatable", moment == "tools")

    repeatable.metadata = {"idempotent": True}
    tools: Sequence[BaseTool] = [quick, slow, repeatable]
    return Bench(folder / "checkpoints.sqlite", effects=effects, tools=tools)


async def reached(moment: str) -> str:
    """Say so, and wait for the end."""
    print(moment, flush=True)
    await asyncio.Event().wait()
    return ""


async def main(folder: Path, moment: str) -> None:
    async def waits() -> str:
        return await reached(moment)

    round_of_tools = calls(("quick", {}), ("slow", {}), ("repeatable", {}))
    steps: dict[str, list[Step]] = {
        "first_call": [waits],
        "tools": [round_of_tools],
        "second_call": [round_of_tools, waits],
    }
    SCRIPTS["main"] = Script(steps=steps[moment])
    async with make_bench(folder, moment).open() as harness:
        await collect(harness, context("r1"), said("go"))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
