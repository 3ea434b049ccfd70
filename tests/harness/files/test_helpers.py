"""Helper processes: what becomes of one that is slow, dies or loses its parent, and that they know no secret."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from typing import TYPE_CHECKING

import pytest

from harness.files.helpers import AT_ONCE, HelperFailed, Helpers
from harness.web.readable import HELPER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ANN, BOB, EVE = "telegram:1", "telegram:2", "slack:U3"
SCRIPT = """\
import json, os, sys, time
while line := sys.stdin.buffer.readline():
    asked = json.loads(line)
    body = sys.stdin.buffer.read(asked["size"])
    match asked["do"]:
        case "die": sys.exit(3)
        case "hang": time.sleep(600)
        case "think":
            time.sleep(0.5)
            print("{}", flush=True)
        case "babble": print("no json", flush=True)
        case "list": print("[]", flush=True)
        case "flood": print("x" * 20_000_000, flush=True)
        case _: print(json.dumps({"pid": os.getpid(), "environment": dict(os.environ), "size": len(body)}), flush=True)
"""


@pytest.fixture
async def helpers(tmp_path: Path) -> AsyncIterator[Helpers]:
    script = tmp_path / "helper.py"
    script.write_text(SCRIPT)
    helpers = Helpers(script)
    yield helpers
    await helpers.close()


async def test_one_process_is_asked_again_and_again(helpers: Helpers) -> None:
    first = await helpers.call({"do": ""}, b"x" * 3_000_000, seconds=20, whose=ANN)
    second = await helpers.call({"do": ""}, b"", seconds=20, whose=ANN)
    assert (first["size"], second["size"]) == (3_000_000, 0)
    assert first["pid"] == second["pid"]


async def test_only_so_many_at_once(helpers: Helpers) -> None:
    told = await asyncio.gather(*(helpers.call({"do": ""}, b"", seconds=20, whose=ANN) for _ in range(10)))
    assert len({each["pid"] for each in told}) <= AT_ONCE


async def test_work_that_hangs_holds_up_neither_another_person_nor_another_account(helpers: Helpers) -> None:
    hanging = [asyncio.create_task(helpers.call({"do": "hang"}, b"", seconds=60, whose=ANN)) for _ in range(10)]
    await asyncio.sleep(0)
    for whose in (BOB, EVE):
        async with asyncio.timeout(20):
            assert (await helpers.call({"do": ""}, b"x", seconds=20, whose=whose))["size"] == 1
    assert not any(task.done() for task in hanging)
    for task in hanging:
        task.cancel()
    await asyncio.wait(hanging)


async def test_the_time_counts_from_ones_turn(helpers: Helpers) -> None:
    calls = (helpers.call({"do": "think"}, b"", seconds=1.5, whose=ANN) for _ in range(4))
    assert len(await asyncio.gather(*calls)) == 4, "the last one waits for longer than its own work may take"


async def test_it_knows_no_secret(helpers: Helpers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    told = await helpers.call({"do": ""}, b"", seconds=20, whose=ANN)
    assert not {"OPENAI_API_KEY", "HTTPS_PROXY", "HOME"} & set(told["environment"])


@pytest.mark.parametrize("do", ["die", "babble", "list", "flood"])
async def test_a_broken_one_is_replaced(helpers: Helpers, do: str) -> None:
    before = await helpers.call({"do": ""}, b"", seconds=20, whose=ANN)
    with pytest.raises(HelperFailed):
        await helpers.call({"do": do}, b"", seconds=20, whose=ANN)
    after = await helpers.call({"do": ""}, b"", seconds=20, whose=ANN)
    assert before["pid"] != after["pid"]


async def test_without_descriptors_none_is_started_and_later_one_is(helpers: Helpers) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open("/dev/null", os.O_RDONLY)
    os.close(free)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        with pytest.raises(HelperFailed):
            await helpers.call({"do": ""}, b"", seconds=20, whose=ANN)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (await helpers.call({"do": ""}, b"x", seconds=20, whose=ANN))["size"] == 1


async def test_a_slow_one_is_ended_and_so_is_one_that_nobody_waits_for(helpers: Helpers) -> None:
    with pytest.raises(TimeoutError):
        await helpers.call({"do": "hang"}, b"", seconds=0.2, whose=ANN)
    waiting = [asyncio.create_task(helpers.call({"do": "hang"}, b"", seconds=60, whose=ANN)) for _ in range(AT_ONCE)]
    third = asyncio.create_task(helpers.call({"do": ""}, b"", seconds=20, whose=ANN))
    for task in waiting:
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait(waiting)
    assert (await third)["size"] == 0


async def test_it_ends_with_its_parent() -> None:
    helper = await asyncio.create_subprocess_exec(sys.executable, "-I", str(HELPER), stdin=asyncio.subprocess.PIPE)
    assert helper.stdin is not None
    helper.stdin.close()
    async with asyncio.timeout(20):
        assert await helper.wait() == 0
