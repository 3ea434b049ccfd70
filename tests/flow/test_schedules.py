"""Reminders and tasks for later, over the wire: made in a chat, due in the same chat once, whatever dies in between."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from bot.texts.en import EN
from harness.events import FailureKind
from tests.flow.sandboxed import call
from tests.simulators.telegram.seen import ALICE, BOB, TEAM

if TYPE_CHECKING:
    from tests.flow.gateway import World
    from tests.simulators.telegram.seen import Person, Room

REMINDED, ANSWERED = "⏰ stretch", "⏰ stretch\n\nYou said: stretch"
NOTED = "noted"
HEAD = EN.reminders_head.strip("*")
SOON = 0.03
"""Minutes."""


@pytest.fixture
def gateway(world: World) -> World:
    world.settings = {
        "access": {"allow": [f"telegram:{ALICE.id}", f"telegram:{BOB.id}"], "admins": [f"telegram:{ALICE.id}"]},
        # Tests talk faster than people.
        "channels": {"telegram": {"rate": {"per_chat_per_second": 20, "per_group_per_minute": 1200}}},
        "sandbox": {"use": "off"},
        "timezone": "Europe/Berlin",
    }
    return world


def put_off(minutes: float, text: str = "stretch") -> str:
    return f"{call('schedule', action='create', text=text, in_minutes=minutes)}\n!say {NOTED}"


async def texts(world: World, chat: Person | Room = ALICE) -> list[str]:
    """What the bot says there, without the answer to the request."""
    await world.telegram.wait_idle(chat)
    return [message.text for message in await world.telegram.bot_messages(chat) if message.text != NOTED]


def make_due(world: World) -> None:
    """Time passes while no process runs: what is scheduled was due an hour ago."""
    with closing(sqlite3.connect(world.data_dir / "antler.db")) as database, database:
        database.execute("UPDATE schedules SET next_at = next_at - 7200 * 1000000")


async def test_it_comes_when_it_is_due_and_the_model_knows_why(gateway: World) -> None:
    async with gateway as world:
        await world.telegram.user_says(put_off(SOON))
        await world.telegram.wait_for_text(ALICE, ANSWERED)
        assert await texts(world) == [ANSWERED]
        made, _, due = (str(record.body["messages"]) for record in await world.model.completions())
        assert "occasion: a schedule" in due
        assert "occasion: a schedule" not in made


@pytest.mark.parametrize("streaming", ["edits", "draft"])
async def test_it_rings_at_once_and_the_answer_grows_below_it(gateway: World, streaming: str) -> None:
    gateway.settings["channels"]["telegram"]["streaming"] = streaming
    async with gateway as world:
        await world.telegram.user_says(put_off(SOON, "!pause half"))
        rang = await world.telegram.wait_for_text(ALICE, "⏰ !pause half")
        assert not rang.silent
        await world.model.release("half")
        answered = await world.telegram.wait_for_text(ALICE, "and the second half.")
        assert answered.message_id == rang.message_id
        assert len(await texts(world)) == 1


async def test_what_is_due_while_the_model_is_down_still_reminds(gateway: World) -> None:
    async with gateway as world:
        await world.telegram.user_says(put_off(SOON, "!status 401"))
        failed = await world.telegram.wait_for_text(ALICE, EN.failures[FailureKind.AUTH].format(model="main"))
        assert failed.text.startswith("⏰ !status 401\n\n")
        assert not failed.silent


async def test_what_is_due_can_be_work(gateway: World) -> None:
    async with gateway as world:
        work = call("schedule", action="list") + "\n!say I looked"
        await world.telegram.user_says(put_off(SOON, work))
        await world.telegram.wait_for_text(ALICE, "I looked")


async def test_a_scheduled_turn_cannot_schedule(gateway: World) -> None:
    async with gateway as world:
        await world.telegram.user_says(put_off(SOON, put_off(SOON, "again") + " and again"))
        await world.telegram.wait_for_message(ALICE, lambda message: "\n\nnoted and again" in message.text)
        results = str((await world.model.completions())[-1].body["messages"][-1])
        assert "such a turn makes no schedules" in results


async def test_a_kill_before_it_is_due(gateway: World) -> None:
    await gateway.start()
    await gateway.telegram.user_says(put_off(60))
    await gateway.telegram.wait_for_text(ALICE, NOTED)
    await gateway.telegram.wait_idle(ALICE)
    await gateway.kill()
    make_due(gateway)
    async with gateway as world:
        await world.telegram.wait_for_text(ALICE, "You said: stretch")
        (shown,) = await texts(world)
        assert shown.startswith(f"{REMINDED}\nThis was due at 20")
        assert shown.endswith("\n\nYou said: stretch")


async def test_a_kill_after_it_was_due(gateway: World) -> None:
    await gateway.start()
    await gateway.telegram.user_says(put_off(SOON, "!pause half"))
    await gateway.telegram.wait_for_text(ALICE, "The first half of the answer")
    await gateway.telegram.wait_idle(ALICE)
    await gateway.kill()
    async with gateway as world:
        await world.model.release("half")
        await world.telegram.wait_for_text(ALICE, "and the second half.")
        assert await texts(world) == ["⏰ !pause half\n\nThe first half of the answer, and the second half."]
    await gateway.start()
    await gateway.telegram.user_says("are you there?")
    await gateway.telegram.wait_for_text(ALICE, "You said: are you there?")
    assert len(await texts(gateway)) == 2
    assert await gateway.stop() == 0


async def test_what_is_listed_can_be_cancelled(gateway: World) -> None:
    async with gateway as world:
        await world.telegram.user_says(put_off(60))
        await world.telegram.wait_for_text(ALICE, NOTED)
        await world.telegram.user_says("/reminders")
        listed = await world.telegram.wait_for_text(ALICE, HEAD)
        assert "1. stretch — 20" in listed.text
        assert [button["text"] for button in listed.buttons] == ["Cancel: stretch"]
        pressed = await world.telegram.press(listed.message_id, "Cancel: stretch")
        answered = await world.telegram.wait_answered(pressed.callback_id)
        assert answered.get("text") == EN.reminder_answers["cancelled"]
        await world.telegram.wait_for_text(ALICE, EN.reminders_none)
        await world.kill()
        make_due(world)
        await world.start()
        await world.telegram.user_says("hello")
        await world.telegram.wait_for_text(ALICE, "You said: hello")
        assert REMINDED not in str(await texts(world))


async def test_what_is_listed_can_be_cancelled_by_its_number(gateway: World) -> None:
    async with gateway as world:
        await world.telegram.user_says(put_off(60))
        await world.telegram.wait_for_text(ALICE, NOTED)
        await world.telegram.user_says("/reminders delete 2")
        await world.telegram.wait_for_text(ALICE, EN.reminder_answers["unknown"].replace("`", ""))
        await world.telegram.user_says("/reminders delete 1")
        await world.telegram.wait_for_text(ALICE, EN.reminder_answers["cancelled_one"].format(text="stretch"))
        await world.telegram.user_says("/reminders")
        await world.telegram.wait_for_text(ALICE, EN.reminders_none)


async def test_in_a_group_it_is_said_there_and_names_whom_it_is_for(gateway: World) -> None:
    async with gateway as world:
        await world.telegram.group_says(f"@antler_bot {put_off(60, 'bobs')}", user=BOB)
        await world.telegram.wait_for_text(TEAM, NOTED)
        await world.telegram.group_says("/reminders@antler_bot", user=ALICE)
        listed = await world.telegram.wait_for_text(TEAM, HEAD)
        assert " · Bob" in listed.text
        await world.telegram.group_says(f"@antler_bot {put_off(SOON)}", user=BOB)
        await world.telegram.wait_for_text(TEAM, "You said: stretch")
        assert (await texts(world, TEAM))[-1] == f"{REMINDED} (Bob)\n\nYou said: stretch"


async def test_who_was_let_out_is_not_served_and_the_admin_hears_of_it(gateway: World) -> None:
    await gateway.start()
    await gateway.telegram.user_says("hello")
    await gateway.telegram.wait_for_text(ALICE, "You said: hello")
    await gateway.telegram.user_says(put_off(60), user=BOB)
    await gateway.telegram.wait_for_text(BOB, NOTED)
    assert await gateway.stop() == 0
    make_due(gateway)
    gateway.settings["access"]["allow"] = [f"telegram:{ALICE.id}"]
    async with gateway as world:
        await world.telegram.wait_for_text(ALICE, "scheduled was due, but they no longer have access to me there")
        assert await texts(world, BOB) == []


async def test_where_it_is_switched_off_there_is_no_such_tool(gateway: World) -> None:
    gateway.settings["schedules"] = {"enabled": False}
    async with gateway as world:
        await world.telegram.user_says("hello")
        await world.telegram.wait_for_text(ALICE, "You said: hello")
        tools = str((await world.model.completions())[-1].body.get("tools", []))
        assert "schedule" not in tools
