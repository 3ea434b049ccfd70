"""Commands through the API of an all-in-one image, beyond the contract: several at once, and hostile ones."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from sandbox.base import Ending, SandboxError
from tests.sandbox.docker.all_in_one_image import all_in_one_image
from tests.sandbox.docker.running import LONG, output
from tests.sandbox.processes import marked

if TYPE_CHECKING:
    from sandbox.base import Sandbox
    from tests.sandbox.docker.conftest import Gateway


@pytest.fixture
async def sandbox(gateway: Gateway) -> Sandbox:
    return await (await gateway.start(image=all_in_one_image(gateway.daemon), api="all_in_one")).acquire("thread")


async def test_characters_are_whole_however_they_come(sandbox: Sandbox) -> None:
    """The API decodes each piece by itself."""
    pieces: list[str] = []
    slowly = "for byte in '\\344' '\\270' '\\255' '\\303' '\\251' '\\377' x '\\360\\237\\230' '\\200' '\\342'; do"
    command = f"{slowly} printf $byte; sleep 0.3; done"
    result = await sandbox.execute_command(command, timeout=LONG, on_output=pieces.append)
    assert result.output == "".join(pieces) == "中é\N{REPLACEMENT CHARACTER}x😀\N{REPLACEMENT CHARACTER}"
    assert len(pieces) > 3
    many = await output(sandbox, "python3 -c \"print('中é😀' * 40_000)\"")
    assert many == "中é😀" * 40_000 + "\n"


async def test_of_a_flood_that_the_image_does_not_keep_the_end_comes(sandbox: Sandbox) -> None:
    result = await sandbox.execute_command(
        "echo begin; head -c 200000000 /dev/zero | tr '\\0' x; echo; echo end", timeout=LONG
    )
    assert result.exit_code == 0
    assert "[some output is missing here" in result.output or result.output.startswith("begin\nx")
    assert result.output.endswith("x\nend\n")


async def test_what_a_command_finds_around_it(sandbox: Sandbox) -> None:
    assert await output(sandbox, "id -u; echo $HOME; image-tool") == "60700\n/mnt/user-data/workspace\nof the image\n"
    variables = await output(sandbox, "env")
    assert "SANDBOX_API_KEY" not in variables
    assert "\nCapEff:\t0000000000000000\nCapBnd:" in await output(sandbox, "cat /proc/self/status")
    assert "\nNoNewPrivs:\t1\n" in await output(sandbox, "cat /proc/self/status")
    assert await output(sandbox, "ulimit -n; ulimit -Hn; ulimit -t; ulimit -Ht") == "128\n128\n600\n600\n"
    assert (await output(sandbox, "cat /proc/net/dev")).count(":") == 1  # the loopback


async def test_a_command_that_kills_its_wrapper_leaves_nothing(gateway: Gateway, sandbox: Sandbox, mark: str) -> None:
    started = gateway.inspect()["State"]["StartedAt"]
    command = f"setsid nohup sleep {mark} & sleep {mark} & kill -9 $PPID; sleep {mark}"
    result = await sandbox.execute_command(command, timeout=LONG)
    assert (result.ending, result.exit_code) == (Ending.EXITED, 137)
    assert marked(mark) == []
    assert await output(sandbox, "echo fine") == "fine\n"
    assert gateway.inspect()["State"]["StartedAt"] == started


async def test_a_command_that_kills_the_api_costs_the_container_and_no_more(sandbox: Sandbox, mark: str) -> None:
    with pytest.raises(SandboxError, match="started anew"):
        await sandbox.execute_command(f"sleep {mark} & kill -9 -1; sleep 50", timeout=LONG)
    assert marked(mark) == []
    assert await output(sandbox, "echo fine") == "fine\n"


async def test_a_cancelled_command_ends_within_a_second(sandbox: Sandbox, mark: str) -> None:
    running = asyncio.create_task(sandbox.execute_command(f"sleep {mark}; true", timeout=LONG))
    async with asyncio.timeout(LONG):
        while not await asyncio.to_thread(marked, mark):
            pass
    began = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert marked(mark) == []
    assert time.monotonic() - began < 5.0  # with nothing else on the machine a tenth of a second
