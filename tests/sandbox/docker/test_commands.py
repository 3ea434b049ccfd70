"""Commands beyond the contract, in a plain and in an all-in-one image: several at once, and hostile ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from sandbox.base import Ending
from tests.sandbox.docker.all_in_one_image import all_in_one_image
from tests.sandbox.docker.running import LONG, output
from tests.sandbox.processes import marked

if TYPE_CHECKING:
    from sandbox.base import Sandbox
    from tests.sandbox.docker.conftest import Gateway


@pytest.fixture(params=["none", "all_in_one"])
async def sandbox(request: pytest.FixtureRequest, gateway: Gateway) -> Sandbox:
    if request.param == "all_in_one":
        provider = await gateway.start(image=all_in_one_image(gateway.daemon), api="all_in_one")
    else:
        provider = await gateway.start()
    return await provider.acquire("thread")


async def test_five_at_once(sandbox: Sandbox) -> None:
    """Each waits for all others."""
    script = "touch here{0}; for i in 1 2 3 4 5; do while [ ! -e here$i ]; do sleep 0.05; done; done; echo {0}"
    found = await asyncio.gather(*(output(sandbox, script.format(number)) for number in range(1, 6)))
    assert found == [f"{number}\n" for number in range(1, 6)]


async def test_any_text_reaches_the_shell_as_it_is(sandbox: Sandbox) -> None:
    text = "".join(map(chr, range(1, 256))) + "中文 🙂 \\n \\\\ $HOME `id` $(id) !x"
    quoted = text.replace("'", "'\\''")
    assert await output(sandbox, f"printf %s '{quoted}'") == text
    assert await output(sandbox, "  echo  a \\\n  b  ") == "a b\n"
    assert (await output(sandbox, f"echo {'x' * 110_000} | wc -c")).strip() == "110001"


async def test_what_a_command_leaves_running_ends_with_it(sandbox: Sandbox, mark: str) -> None:
    result = await sandbox.execute_command(f"(setsid nohup sleep {mark} &) & sleep {mark} & echo done", timeout=LONG)
    assert (result.exit_code, result.output) == (0, "done\n")
    assert marked(mark) == []


async def test_others_go_on_when_one_is_killed(sandbox: Sandbox, mark: str) -> None:
    other = asyncio.create_task(
        sandbox.execute_command("while [ ! -e stop ]; do sleep 0.05; done; echo on", timeout=LONG)
    )
    killed = await sandbox.execute_command(f"sleep {mark} & sleep {mark}", timeout=0.5)
    assert killed.ending is Ending.TIMED_OUT
    assert marked(mark) == []
    await sandbox.write_file("stop", "")
    assert (await other).output == "on\n"


async def test_a_command_that_stops_its_wrapper_is_killed_with_it(sandbox: Sandbox, mark: str) -> None:
    result = await sandbox.execute_command(f"kill -STOP $PPID; sleep {mark}", timeout=0.5)
    assert result.ending is Ending.TIMED_OUT
    assert marked(mark) == []
    assert await output(sandbox, "echo fine") == "fine\n"


async def test_a_fork_bomb_that_freezes_its_wrapper_costs_the_container_and_no_more(
    sandbox: Sandbox, mark: str
) -> None:
    command = f"kill -STOP $PPID; python3 -c 'import os\nwhile True:\n try: os.fork()\n except OSError: pass' {mark}"
    result = await sandbox.execute_command(command, timeout=1.0)
    assert result.ending is Ending.TIMED_OUT
    assert marked(mark) == []
    assert await output(sandbox, "echo fine") == "fine\n"


async def test_a_cancelled_command_that_has_hardly_begun_leaves_nothing(sandbox: Sandbox, mark: str) -> None:
    for pause in (0.0, 0.01, 0.05, 0.2):
        running = asyncio.create_task(sandbox.execute_command(f"sleep {mark}", timeout=LONG))
        await asyncio.wait([running], timeout=pause)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert marked(mark) == []
    assert await output(sandbox, "echo fine") == "fine\n"


async def test_a_command_that_kills_its_wrapper_leaves_nothing(sandbox: Sandbox, mark: str) -> None:
    command = f"setsid nohup sleep {mark} & sleep {mark} & kill -9 $PPID; sleep {mark}"
    result = await sandbox.execute_command(command, timeout=LONG)
    assert (result.ending, result.exit_code) == (Ending.EXITED, 137)
    assert marked(mark) == []
    assert await output(sandbox, "echo fine") == "fine\n"


async def test_a_command_that_kills_all_it_can_does_no_harm(sandbox: Sandbox) -> None:
    result = await sandbox.execute_command("kill -9 -1; sleep 50", timeout=LONG)
    assert result.exit_code == 137
    assert await output(sandbox, "echo fine") == "fine\n"
