"""`antler doctor` beside a gateway that runs, and after one that was killed."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

from tests.simulators.process import REPO_ROOT

if TYPE_CHECKING:
    from tests.flow.gateway import World


async def diagnosed(world: World, *options: str) -> dict[str, dict[str, Any]]:
    """The newest finding on each subject, by group and subject."""
    doctor = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bot", "doctor", "--json", *options, "--config", str(world.config_file)),
        cwd=REPO_ROOT,
        env=world.variables,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await doctor.communicate()
    told = json.loads(output)["findings"]
    return {f"{finding['group']}: {finding['what']}": finding for finding in told}


async def test_a_gateway_that_runs_is_asked_and_not_disturbed(world: World) -> None:
    await world.start()
    found = await diagnosed(world, "--online")
    assert found["Antler: antler run"]["severity"] == "ok"
    assert found["Accounts: channels.telegram"]["says"].startswith("Telegram knows it as ")
    assert found["Data: database"]["severity"] == "ok"
    assert found["Data: data_dir"]["severity"] == "ok"
    assert await world.telegram.records("getWebhookInfo") == []
    await world.telegram.user_says("!say still here")
    await world.telegram.wait_idle()
    assert "another program" not in world.log
    await world.stop()


async def test_what_a_killed_gateway_left_is_removed(world: World) -> None:
    await world.start()
    await world.kill()
    found = await diagnosed(world, "--fix")
    assert found["Antler: antler run"]["says"] == "no gateway is running on this data folder"
    assert found["Data: control.sock"]["fixed"] == "removed"
    logged = (world.data_dir / "antler.log").read_text()
    assert "bot.control.actions: doctor_fix control.sock, by antler on the machine" in logged
    assert not (world.data_dir / "control.sock").exists()
    await world.start()
    await world.stop()
