"""Commands in a container beyond the contract: several at once, and hostile ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox.base import Ending
from tests.sandbox.docker.running import LONG, output
from tests.sandbox.processes import marked

if TYPE_CHECKING:
    from sandbox.base import Sandbox
    from tests.sandbox.docker.conftest import Gateway


@pytest.fixture
async def sandbox(gateway: Gateway) -> Sandbox:
    return await (await gateway.start()).acquire("thread")


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
