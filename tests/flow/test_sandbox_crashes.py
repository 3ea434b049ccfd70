"""A gateway that dies, stops or never had a sandbox: no command outlives it, and every answer says what happened."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

import pytest

from bot.files.sandboxes import instance_of
from bot.store.identity import thread_folder
from sandbox.local.probe import probe_thread
from tests.flow.sandboxed import bash, call, require_bubblewrap, until_gone, until_running
from tests.simulators.telegram import faults
from tests.simulators.telegram.seen import ALICE, FileSpec

if TYPE_CHECKING:
    from tests.flow.gateway import World

require_bubblewrap()

PRESENT = call("present_files", paths=["/mnt/user-data/outputs/report.txt"])


async def test_kill_in_mid_command_leaves_none_running_and_the_model_is_told(world: World, mark: str) -> None:
    await world.start()
    await world.telegram.user_says(bash(f"touch begun; setsid sleep {mark} & sleep {mark}"))
    await until_running(mark)
    await world.kill()
    await until_gone(mark, 5.0)
    async with world:
        await world.telegram.wait_for_text(ALICE, "interrupted: it may have happened, wholly, in part or not at all")
        assert len(await world.telegram.bot_messages(ALICE)) == 1
        await world.telegram.user_says(bash("ls"))
        await world.telegram.wait_for_text(ALICE, "begun")


async def test_a_planned_stop_ends_the_command_and_the_run_goes_on(world: World, mark: str) -> None:
    await world.start()
    await world.telegram.user_says(bash(f"sleep {mark}"))
    await until_running(mark)
    assert await world.stop() == 0
    await until_gone(mark, 0.5)
    async with world:
        await world.telegram.wait_for_text(ALICE, "interrupted")


async def test_a_file_that_was_not_delivered_is_after_a_restart(world: World) -> None:
    await world.start()
    await world.telegram.fail("sendDocument", faults.bad_gateway(), times=3)
    await world.telegram.user_says(
        "\n".join([bash("echo figures > /mnt/user-data/outputs/report.txt"), PRESENT, "!say the report"])
    )
    await world.telegram.wait_for_text(ALICE, "the report")
    await world.telegram.wait_for_record(lambda record: record.method == "sendDocument" and record.status == 502)
    await world.kill()
    async with world:
        message = await world.telegram.wait_for_message(ALICE, lambda message: bool(message.files))
        assert message.files[0]["sha256"] == hashlib.sha256(b"figures\n").hexdigest()
        await world.telegram.wait_idle(ALICE)
        assert len(await world.telegram.bot_messages(ALICE)) == 2


async def test_what_a_crash_left_is_cleared_away(world: World) -> None:
    """In the spool, and of a start that was killed while it tried the sandbox."""
    lost = world.data_dir / "spool" / "0123456789abcdef"
    tried = thread_folder(world.data_dir, probe_thread(f"antler-{instance_of(world.data_dir)}")) / "workspace"
    for folder in (lost, tried):
        folder.mkdir(parents=True)
        (folder / "copy").write_bytes(b"nobody waits for it")
    async with world:
        await world.telegram.user_says("hello")
        await world.telegram.wait_for_text(ALICE, "You said")
    assert not lost.exists()
    assert list((world.data_dir / "threads").iterdir()) == [], "a thread that used no sandbox has no folder"


async def test_what_somebody_sent_within_a_day_counts_after_a_restart(world: World) -> None:
    world.settings = {"sandbox": {"use": "off"}, "uploads": {"max_person_mb_per_day": 0.001}}
    first, second = (FileSpec(name=f"{name}.bin", content=bytes(600)) for name in ("first", "second"))
    await world.start()
    await world.telegram.user_says("take it", file=first)
    await world.telegram.wait_for_text(ALICE, "You said")
    await world.kill()
    async with world:
        await world.telegram.user_says("and this", file=second)
        await world.telegram.wait_for_text(
            ALICE, "second.bin was not accepted: you have already sent 0.001 MB within a day"
        )
        await world.telegram.wait_for_text(ALICE, "You said: and this")


async def test_without_bubblewrap_files_stay_and_commands_are_refused(world: World) -> None:
    world.settings = {"sandbox": {"use": "tests.flow.broken_provider:BrokenProvider"}}
    async with world:
        table = FileSpec(name="sales.csv", mime="text/csv", content=b"month,sum\n")
        await world.telegram.user_says("\n".join([bash("id"), "!say after"]), file=table)
        await world.telegram.wait_for_text(ALICE, "after")
        await world.telegram.user_says(call("glob", pattern="*.csv", path="/mnt/user-data/uploads"))
        await world.telegram.wait_for_text(ALICE, "sales.csv")
        await world.telegram.user_says("/status")
        await world.telegram.wait_for_text(ALICE, "I have files, but cannot run commands")
        assert "commands are refused: it is not installed (install it)" in world.log
        tools = {tool["function"]["name"] for tool in (await world.model.completions())[0].body["tools"]}
        assert "bash" not in tools
        assert "read_file" in tools


async def test_switched_off_there_is_nothing(world: World) -> None:
    world.settings = {"sandbox": {"use": "off"}}
    async with world:
        await world.telegram.user_says("hello")
        await world.telegram.wait_for_text(ALICE, "You said")
        tools = {tool["function"]["name"] for tool in (await world.model.completions())[0].body["tools"]}
        looking = {"ls", "glob", "grep", "read_file", "view_image"}
        assert tools.isdisjoint({"bash", "write_file", "str_replace", "present_files", *looking})
        await world.telegram.user_says("/status")
        await world.telegram.wait_for_text(ALICE, "Sandbox: off")


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
async def test_where_nothing_may_be_isolated_check_config_says_so(world: World) -> None:
    world.settings = {"sandbox": {"use": "tests.flow.broken_provider:BrokenProvider"}}
    world.write_config()
    code, output = await world.command("check-config")
    assert code == 0
    assert "the agent has files but runs no commands; commands are refused: it is not installed (install it)" in output
