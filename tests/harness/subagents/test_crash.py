"""kill -9 while subagents are at work: the lead agent hears that nobody knows how far they got; nothing runs again."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

from langchain_core.messages import ToolMessage

from harness.graph.calls import INTERRUPTED
from tests.harness.subagents.killed import WORKING, make_bench
from tests.harness.support import Script, collect, context, finished, said, unpaired

if TYPE_CHECKING:
    from pathlib import Path


async def killed_at_work(folder: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.harness.subagents.killed", str(folder), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        assert (await process.stdout.readline()).decode().strip() == WORKING
        process.send_signal(signal.SIGKILL)
        await process.wait()


def acts(folder: Path) -> list[str]:
    return sorted((folder / "acts").read_text().split())


async def test_the_run_goes_on_and_no_tool_of_a_subagent_runs_twice(tmp_path: Path, script: Script) -> None:
    await killed_at_work(tmp_path)
    assert acts(tmp_path) == ["first", "other", "second"]
    script.steps = ["I will look at what is there."]
    async with make_bench(tmp_path, waits=False).open() as harness:
        events = await collect(harness, context("r1"), said("go"), attempt=2, next_seq=50)
    assert finished(events).text == "I will look at what is there."
    assert acts(tmp_path) == ["first", "other", "second"], "nothing again"
    (request,) = script.requests
    assert unpaired(request) is None
    assert [m.content for m in request if isinstance(m, ToolMessage)] == [INTERRUPTED, INTERRUPTED]


async def test_a_new_message_after_the_kill_finds_a_sound_thread(tmp_path: Path, script: Script) -> None:
    await killed_at_work(tmp_path)
    script.steps = ["something else"]
    async with make_bench(tmp_path, waits=False).open() as harness:
        events = await collect(harness, context("r2"), said("what happened?"))
    assert finished(events).text == "something else"
    assert acts(tmp_path) == ["first", "other", "second"]
    (request,) = script.requests
    assert unpaired(request) is None
