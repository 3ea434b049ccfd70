"""An edited config holds without a restart: models, people, limits, servers; a faulty one changes nothing."""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import closing
from typing import TYPE_CHECKING

from bot.texts.en import EN
from tests.flow.gateway import merged
from tests.flow.sandboxed import call
from tests.flow.test_mcp import local
from tests.simulators.model.scripts import Pause, Say
from tests.simulators.telegram.seen import ALICE, BOB

if TYPE_CHECKING:
    from pathlib import Path

    from tests.flow.gateway import World


def edited(world: World, **changes: object) -> None:
    world.settings = merged(world.settings, changes)
    world.write_config()


async def test_models_people_and_servers_change_while_it_runs(world: World) -> None:
    world.environment = {"CANARY": "canary-0123456789"}
    async with world:
        await world.telegram.user_says("hello?", user=BOB)
        await world.telegram.wait_for_text(BOB, "no administrator yet")
        # A run that is at work goes on as it began.
        await world.model.script("take long", (Pause(name="held"), Say(text="the long answer")), "contains")
        await world.telegram.user_says("take long", user=ALICE)
        await world.model.wait_for_pause("held")
        server = {"base_url": world.model.base_url, "api_key": "$MODEL_KEY"}
        edited(
            world,
            models=[{"name": "new", "model": "sim-2", **server}],
            access={"allow": [f"telegram:{ALICE.id}", f"telegram:{BOB.id}"]},
            mcp_servers={"local": local()},
            memory={"storage": "database"},
        )
        told = "now in force: models, access, mcp_servers; these need a restart of antler: memory.storage"
        await world.wait_for_log(told)
        await world.model.release("held")
        await world.telegram.wait_for_text(ALICE, "the long answer")
        await world.telegram.user_says(call("runtime"), user=BOB)
        await world.telegram.wait_for_text(BOB, "Tool result")
        await world.telegram.user_says("/models", user=BOB)
        assert "new" in (await world.telegram.wait_for_text(BOB, "sim-2")).text
        code, told = await world.command("status")
        assert (code, "these need a restart of antler: memory.storage" in told, "local: ready" in told) == (
            0,
            True,
            True,
        )
    models = [record.body["model"] for record in await world.model.completions()]
    assert (models[0], models[-1]) == ("sim", "sim-2")


async def test_who_is_taken_out_of_the_config_gets_nothing_of_what_waits(world: World) -> None:
    world.settings = {"access": {"allow": [f"telegram:{ALICE.id}", f"telegram:{BOB.id}"]}}
    async with world:
        await world.telegram.user_says("!pause half", user=BOB)
        await world.telegram.wait_for_text(BOB, "The first half")
        await world.telegram.user_says("and this", user=BOB)
        await world.telegram.wait_for_text(BOB, EN.steering)
        edited(world, access={"allow": [f"telegram:{ALICE.id}"]})
        code, told = await world.command("reload")
        assert (code, "access" in told) == (0, True), told
        await world.telegram.wait_for_text(BOB, "Stopped: an administrator has revoked access")
        await world.telegram.wait_for_text(BOB, "Not answered: an administrator")
        await world.model.release("half")
        await world.telegram.user_says("still there?", user=ALICE)
        await world.telegram.wait_for_text(ALICE, "You said: still there?")
        asked = [record.last_user_text for record in await world.model.completions()]
        assert not [text for text in asked if "and this" in text]


async def test_a_faulty_config_changes_nothing_and_is_told(world: World) -> None:
    async with world:
        edited(world, limits={"message_burst": -1}, access={"allow": []})
        code, told = await world.command("reload")
        assert (code, "limits.message_burst" in told, "nothing was changed" in told) == (78, True, True)
        assert world.process is not None
        world.process.send_signal(signal.SIGHUP)
        await world.wait_for_log("the config was not applied, the previous one stays in force")
        code, told = await world.command("status")
        assert (code, "was not applied" in told, "limits.message_burst" in told) == (0, True, True)
        await world.telegram.user_says("still there?", user=ALICE)
        await world.telegram.wait_for_text(ALICE, "You said: still there?")
        edited(world, limits={"message_burst": 5}, tools=[{"use": "json:nothing"}])
        code, told = await world.command("reload")
        assert (code, "json has no nothing" in told) == (1, True), told
        await world.telegram.user_says("and now?", user=ALICE)
        await world.telegram.wait_for_text(ALICE, "You said: and now?")
        world.settings = {}
        world.write_config()
        code, told = await world.command("reload")
        assert (code, told) == (0, "antler: the config has not changed\n")


async def test_systemd_is_told_how_it_goes(world: World, tmp_path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as manager:
        manager.bind(f"{tmp_path}/notify")
        manager.settimeout(40)

        async def hears(line: str) -> None:
            while line not in (await asyncio.to_thread(manager.recv, 4096)).decode().split("\n"):
                pass

        world.environment = {"NOTIFY_SOCKET": f"{tmp_path}/notify", "WATCHDOG_USEC": "1500000"}
        async with world:
            await hears("READY=1")
            await hears("STATUS=1 of 1 accounts connected, 0 runs active")
            assert world.process is not None
            world.process.send_signal(signal.SIGHUP)
            await hears("RELOADING=1")
            await hears("READY=1")
            await hears("WATCHDOG=1")
            assert await world.stop() == 0
            await hears("STOPPING=1")
