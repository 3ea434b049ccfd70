"""kill -9 in the middle of a run, then the same run in a new process: an answer in the end, and no effect twice."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import ToolMessage

from harness.graph.calls import INTERRUPTED
from tests.harness.killed import make_bench
from tests.harness.support import Script, collect, context, said, unpaired

if TYPE_CHECKING:
    from pathlib import Path


async def run_until_killed(folder: Path, moment: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.harness.killed", str(folder), moment, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(30):
        assert (await process.stdout.readline()).decode().strip() == moment
        process.send_signal(signal.SIGKILL)
        await process.wait()


def acts(folder: Path) -> list[str]:
    file = folder / "acts"
    return sorted(file.read_text().split()) if file.exists() else []


@pytest.mark.parametrize(
    ("moment", "before", "after", "results"),
    [
        ("first_call", [], [], []),
        (
            "tools",
            ["quick", "repeatable", "slow"],
            ["quick", "repeatable", "repeatable", "slow"],
            ["done quick", INTERRUPTED, "done repeatable"],
        ),
        (
            "second_call",
            ["quick", "repeatable", "slow"],
            ["quick", "repeatable", "slow"],
            ["done quick", "done slow", "done repeatable"],
        ),
    ],
)
async def test_a_killed_run_ends_with_an_answer(
    tmp_path: Path, script: Script, moment: str, before: list[str], after: list[str], results: list[str]
) -> None:
    await run_until_killed(tmp_path, moment)
    assert acts(tmp_path) == before
    async with make_bench(tmp_path, "").open() as harness:
        events = await collect(harness, context("r1"), said("go"), attempt=2, next_seq=50)
    assert events[0].type == "resumed"
    assert events[-1].type == "finished"
    assert acts(tmp_path) == after
    (request,) = script.requests
    assert unpaired(request) is None
    assert [m.content for m in request if isinstance(m, ToolMessage)] == results


async def test_another_message_after_the_kill_finds_a_sound_thread(tmp_path: Path, script: Script) -> None:
    await run_until_killed(tmp_path, "tools")
    async with make_bench(tmp_path, "").open() as harness:
        events = await collect(harness, context("r2"), said("what happened?"))
    assert events[-1].type == "finished"
    assert acts(tmp_path) == ["quick", "repeatable", "slow"]
    (request,) = script.requests
    assert unpaired(request) is None
    assert [m.content for m in request if isinstance(m, ToolMessage)] == ["done quick", INTERRUPTED, INTERRUPTED]
