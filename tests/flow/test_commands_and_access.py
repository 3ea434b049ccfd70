"""What people can ask of the gateway itself, and who may."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bot.texts.en import EN
from tests.simulators.telegram.seen import ALICE, BOB, TEAM, Room

if TYPE_CHECKING:
    from pathlib import Path

    from tests.flow.gateway import World

ELSEWHERE = Room(-1001000000009, "supergroup", "Elsewhere")


async def test_a_stranger_is_told_their_id_once_and_nothing_else(world: World) -> None:
    world.settings = {"access": {"dm": "allowlist"}}
    async with world:
        await world.telegram.user_says("let me in", user=BOB)
        greeting = await world.telegram.wait_for_text(BOB, f"telegram:{BOB.id}")
        await world.telegram.user_says("hello? /status", user=BOB)
        await world.telegram.user_says("/status", user=BOB)
        await world.telegram.wait_idle()
        assert [m.message_id for m in await world.telegram.bot_messages(BOB)] == [greeting.message_id]
        assert await world.model.completions() == []


async def test_without_a_mention_the_group_talks_undisturbed(world: World) -> None:
    async with world:
        await world.telegram.group_says("nothing for the bot", user=BOB)
        await world.telegram.group_says("/status@other_bot", user=BOB)
        await world.telegram.wait_idle()
        assert await world.telegram.bot_messages(TEAM) == []


async def test_status_tells_the_truth_while_a_run_goes_on(world: World) -> None:
    async with world:
        await world.telegram.user_says("!pause half")
        await world.telegram.wait_for_text(ALICE, "The first half")
        await world.telegram.user_says("/status")
        status = await world.telegram.wait_for_text(ALICE, "Antler")
        for expected in ("connected", "main", "Running: for", "Waiting: 0"):
            assert expected in status.text
        assert await world.command("status", "--check") == (0, "")
        code, output = await world.command("status")
        assert code == 0
        assert "telegram: connected" in output


async def test_models_are_listed_switched_by_name_and_by_button(world: World) -> None:
    async with world:
        await world.telegram.user_says("/models")
        listed = await world.telegram.wait_for_text(ALICE, "other")
        assert [button["text"] for button in listed.buttons] == ["● main", "other"]
        press = await world.telegram.press(listed.message_id, "other")
        await world.telegram.wait_answered(press.callback_id)
        await world.telegram.user_says("which model?")
        await world.telegram.wait_for_text(ALICE, "which model?")
        assert (await world.model.completions())[-1].body["model"] == "sim-2"
        await world.telegram.user_says("/models main")
        await world.telegram.wait_for_text(ALICE, "now uses")
        await world.telegram.user_says("/models nonsense")
        await world.telegram.wait_for_text(ALICE, "There is no model")


async def test_in_a_group_only_admins_switch_and_only_the_asker_stops(world: World) -> None:
    world.settings = {"access": {"admins": [f"telegram:{ALICE.id}"]}}
    async with world:
        await world.telegram.group_says("@antler_bot !pause half", user=ALICE)
        await world.telegram.wait_for_text(TEAM, "The first half")
        await world.telegram.group_says("/stop@antler_bot", user=BOB)
        await world.telegram.wait_for_text(TEAM, "Only the person who asked")
        await world.telegram.group_says("/new", user=BOB)
        await world.telegram.wait_for_text(TEAM, "Only administrators")
        await world.telegram.group_says("/stop", user=ALICE)
        await world.telegram.wait_for_text(TEAM, "unfinished")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/help", "/models"),
        ("/whoami", f"telegram:{ALICE.id}"),
        ("/memory", "I remember nothing about you yet"),
        ("/statsu", "/status"),
        ("/models main extra", "There is no model"),
    ],
)
async def test_small_commands(world: World, command: str, expected: str) -> None:
    async with world:
        await world.telegram.user_says(command)
        await world.telegram.wait_for_text(ALICE, expected)
        assert await world.model.completions() == []


async def test_the_command_menu_is_registered_in_both_languages(world: World) -> None:
    async with world:
        await world.telegram.wait_for_record(
            lambda call: call.method == "setMyCommands" and call.params.get("language_code") == "zh"
        )
        names = [command["command"] for command in (await world.telegram.commands())[0]["commands"]]
        assert names == list(EN.command_menu)
        assert {"new", "stop", "undo", "threads", "usage", "help"} <= set(names)
        await world.wait_for_log("bot.files.sandboxes")  # which it had not looked at yet


async def test_a_second_process_for_the_same_data_is_refused(world: World) -> None:
    async with world:
        code, output = await world.command("run")
        assert code == 78
        assert str(world.process.pid if world.process else 0) in output


async def test_another_bot_under_an_old_name_is_refused(world: World) -> None:
    async with world:
        await world.stop()
        other = await world.telegram.add_bot("424242:" + "x" * 35, username="other_bot")
        world.telegram = other
        await world.begin()
        await world.wait_for_log("antler account rename")
        assert (await world.command("status", "--check"))[0] == 1


async def test_a_renamed_account_keeps_its_conversations(world: World) -> None:
    async with world:
        await world.telegram.user_says("remember the word zebra")
        await world.telegram.wait_for_text(ALICE, "zebra")
        await world.stop()
        code, output = await world.command("account", "rename", "telegram", "helpdesk")
        assert (code, "helpdesk" in output) == (0, True), output
        channel = {"type": "telegram", "token": "$BOT_TOKEN", "base_url": world.telegram.root}
        access = {"allow": [f"helpdesk:{ALICE.id}"], "groups": {"allow": []}}
        world.settings = {"channels": {"telegram": None, "helpdesk": channel}, "access": access}
        await world.start()
        await world.telegram.user_says("which word?")
        await world.telegram.wait_for_text(ALICE, "which word?")
        assert "zebra" in str((await world.model.completions())[-1].body["messages"])


async def test_links_of_public_and_private_groups_lead_to_their_messages(world: World) -> None:
    """On the machine too, while Antler runs and while it is stopped; ids of messages are the same in both groups."""
    builders = Room(-1001000000077, "supergroup", "Builders", username="Builders")
    world.settings["access"] = {"groups": {"allow": [f"telegram:{TEAM.id}", f"telegram:{builders.id}"]}}
    async with world:
        ids = {}
        for room in (TEAM, builders):
            said = await world.telegram.group_says("@antler_bot hello", chat=room, user=ALICE)
            await world.telegram.wait_for_text(room, "You said: hello")
            ids[room.id] = said.message_id
        links = {
            f"https://t.me/c/{str(TEAM.id).removeprefix('-100')}/{ids[TEAM.id]}": TEAM,
            f"https://t.me/builders/{ids[builders.id]}": builders,
        }
        for link, room in links.items():
            code, told = await world.command("why", link)
            assert (code, f"of telegram:{room.id}," in told, "hello" in told) == (0, True, False)
        code, told = await world.command("why", f"https://t.me/strangers/{ids[builders.id]}")
        assert (code, "I know no such message" in told) == (1, True)
        code, told = await world.command("why", "https://example.org/1")
        assert (code, "https://t.me/NAME/56" in told, "names no message" in told) == (1, True, True)
    for link, room in links.items():
        code, told = await world.command("why", link)
        assert (code, f"of telegram:{room.id}," in told) == (0, True)


async def test_what_is_done_on_the_machine_is_in_the_log_whether_it_runs_or_not(world: World, tmp_path: Path) -> None:
    file, by = world.data_dir / "antler.log", "by antler on the machine"
    async with world:
        assert (await world.command("backup", str(tmp_path / "copy.tar.gz")))[0] == 0
        await world.wait_for_log(f"bot.control.actions: backup copy.tar.gz, {by}")
        world.settings["budgets"] = {"gateway_day": {"tokens": 1000}}
        world.write_config()
        assert (await world.command("reload"))[0] == 0
        await world.wait_for_log("now in force: budgets")
    assert (await world.command("access", "allow", f"telegram:{BOB.id}", "--admin"))[0] == 0
    assert (await world.command("forget", f"telegram:{BOB.id}"))[0] == 0
    assert (await world.command("backup", str(tmp_path / "later.tar.gz")))[0] == 0
    lines = file.read_text().splitlines()[-3:]
    assert [line.partition(": ")[2] for line in lines] == [
        f"access: telegram:{BOB.id} is now admin, {by}",
        f"forget_person of telegram:{BOB.id}, {by}",
        f"backup later.tar.gz, {by}",
    ]
