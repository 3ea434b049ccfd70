"""Servers as processes of ours: what they know, how they fail, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from harness.mcp import stdio
from harness.mcp.config import McpServerSettings
from harness.mcp.errors import CallFailed
from tests.harness.mcp.conftest import named, text_of
from tests.simulators.process import REPO_ROOT, child_environment

if TYPE_CHECKING:
    from pathlib import Path

    from tests.harness.mcp.conftest import Bench

GONE_SECONDS = 15.0


async def gone(*pids: int) -> None:
    """Until none of these processes runs."""
    async with asyncio.timeout(GONE_SECONDS):
        for pid in pids:
            if not psutil.pid_exists(pid):
                continue
            handle = os.pidfd_open(pid)
            over = asyncio.Event()
            asyncio.get_running_loop().add_reader(handle, over.set)
            try:
                await over.wait()
            finally:
                asyncio.get_running_loop().remove_reader(handle)
                os.close(handle)


async def test_a_server_is_called_and_ends_with_the_pool(bench: Bench) -> None:
    async with bench.pool(play=bench.stdio()) as pool:
        assert [facts.state for facts in pool.facts] == ["ready"]
        assert await text_of(pool, "echo", text="hello") == "play says hello"
        server, child = map(int, (await text_of(pool, "leave_child")).split())
    await gone(server, child)


async def test_its_environment_is_its_own(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOT_TOKEN", "a-secret-of-the-gateway")
    settings = bench.stdio(env={"GREETING": "hello", "API_KEY": "k-123456789", "DEBUG": True, "LEVEL": 3})
    async with bench.pool(play=settings) as pool:
        found = json.loads(await text_of(pool, "environment"))
    own = {"GREETING": "hello", "API_KEY": "k-123456789", "DEBUG": "true", "LEVEL": "3"}
    assert own.items() <= found.items()
    assert set(found) - set(own) <= {"PATH", "HOME", "LANG", "LC_CTYPE"}


async def test_a_crash_during_a_call_is_told_and_the_server_comes_back(bench: Bench) -> None:
    async with bench.pool(play=bench.stdio()) as pool:
        with pytest.raises(CallFailed, match="broke during the call") as raised:
            await pool.call(named(pool, "crash"), {})
        assert raised.value.happened
        assert await text_of(pool, "echo", text="again") == "play says again"


async def test_a_program_that_is_not_there_is_named(bench: Bench) -> None:
    missing = McpServerSettings(transport="stdio", command="/nowhere/at/all")
    async with bench.pool(lost=missing, play=bench.stdio()) as pool:
        facts = {each.name: each for each in pool.facts}
        assert facts["lost"].state == "retrying"
        assert facts["lost"].detail.startswith("its program is missing or cannot be run")
        assert facts["play"].state == "ready"


async def test_a_call_that_takes_too_long_is_given_up_and_withdrawn(bench: Bench) -> None:
    async with bench.pool(play=bench.stdio(timeout=0.5)) as pool:
        with pytest.raises(CallFailed, match=r"did not answer within 0\.5 seconds") as raised:
            await pool.call(named(pool, "hang"), {})
        assert raised.value.happened
        await bench.reports.heard("hang over")
        assert await text_of(pool, "echo", text="still there") == "play says still there"


async def test_a_call_that_is_cancelled_is_withdrawn(bench: Bench) -> None:
    async with bench.pool(play=bench.stdio()) as pool:
        call = asyncio.create_task(pool.call(named(pool, "hang"), {}))
        await bench.reports.heard("call hang")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await bench.reports.heard("hang over")


async def test_a_megabyte_comes_whole_and_much_more_ends_the_connection(bench: Bench) -> None:
    async with bench.pool(play=bench.stdio()) as pool:
        assert len(await text_of(pool, "big", size=1_000_000)) == 1_000_010
        with pytest.raises(CallFailed, match="broke"):
            await pool.call(named(pool, "big"), {"size": stdio.LARGEST_MESSAGE + 1000})
        assert await text_of(pool, "echo", text="x") == "play says x"


async def test_its_stderr_is_logged_within_bounds(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="harness")
    async with bench.pool(play=bench.stdio(env={"CANARY_TOKEN": "\x1b[31mred"})) as pool:
        assert await text_of(pool, "flood") == "flooded"
    said = [record.getMessage() for record in caplog.records if " says: " in record.getMessage()]
    assert 0 < len(said) <= stdio.LOGGED_LINES
    assert all("\x1b" not in line and len(line) < 400 for line in said)


async def test_what_is_no_message_is_passed_over(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    chatty = "import sys, runpy; sys.argv[1:] = ['stdio']; print('hello there'); print('{}', flush=True)"
    run = "runpy.run_module('tests.simulators.mcp')"
    settings = bench.stdio().model_copy(update={"args": ("-c", f"{chatty}; {run}")})
    async with bench.pool(play=settings) as pool:
        assert await text_of(pool, "echo", text="x") == "play says x"
    assert sum("stray output: " in record.getMessage() for record in caplog.records) == 1


async def test_a_server_may_ask_for_nothing(bench: Bench) -> None:
    async with bench.pool(play=bench.stdio()) as pool:
        assert (await text_of(pool, "ask_model")).startswith("refused")


async def test_nothing_is_left_when_the_gateway_is_killed(bench: Bench, tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.harness.mcp.killed", str(tmp_path)),
        cwd=REPO_ROOT,
        env=child_environment(),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(30):
        server, child = map(int, (await process.stdout.readline()).split())
    assert psutil.pid_exists(server)
    assert psutil.pid_exists(child)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    await gone(server, child)
