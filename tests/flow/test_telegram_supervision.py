"""Connections that break: said truthfully, healed without a hand, and one account's trouble is nobody else's."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx

from tests.simulators.telegram import faults
from tests.simulators.telegram.seen import ALICE, BOB, TEAM, Person

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.flow.gateway import World

FIRST_HALF = "The first half of the answer"
WHOLE = "The first half of the answer, and the second half."
NEW_TEAM = -1009999999999


async def status_tells(world: World, *expected: str) -> str:
    """`antler status`, asked until it tells all that."""
    output = ""
    async with asyncio.timeout(30):
        while not all(text in output for text in expected):
            _, output = await world.command("status")
    return output


@asynccontextmanager
async def another_poller(world: World) -> AsyncIterator[None]:
    """Another program polls with the same token, again and again, inside this block."""

    async def poll(other: httpx.AsyncClient) -> None:
        while True:
            await other.post(f"{world.telegram.base_url}{world.telegram.token}/getUpdates", json={"timeout": 1})

    async with httpx.AsyncClient(trust_env=False) as other:
        polling = asyncio.create_task(poll(other), name="another poller")
        yield
        assert not polling.done()
        polling.cancel()
        await asyncio.wait([polling])


async def test_a_second_poller_is_named_and_when_it_is_gone_all_is_well(world: World) -> None:
    async with world:
        async with another_poller(world):
            output = await status_tells(world, "another program receives this bot's messages (409)")
            assert "channels.telegram.token" in output
            assert (await world.command("status", "--check"))[0] == 1
        await world.telegram.user_says("are you back?")
        await world.telegram.wait_for_text(ALICE, "are you back?", timeout=45)  # its pauses have grown meanwhile
        await world.telegram.wait_polled()
        assert (await world.command("status", "--check"))[0] == 0


async def test_a_wrong_token_is_told_with_a_hint_and_a_reload_brings_the_right_one(world: World) -> None:
    wrong = "123456:" + "w" * 35
    world.settings = {"channels": {"telegram": {"token": wrong}}}
    await world.begin()
    await world.wait_for_log("set channels.telegram.token")
    assert wrong not in world.log
    assert (await world.command("status", "--check"))[0] == 1
    world.settings = {}
    world.write_config()
    assert (await world.command("reload"))[0] == 0
    await world.telegram.wait_polled()
    await world.telegram.user_says("at last")
    await world.telegram.wait_for_text(ALICE, "at last")
    assert await world.stop() == 0


async def test_the_only_account_is_tried_again_when_its_token_was_revoked(world: World) -> None:
    async with world:
        await world.telegram.fail("getUpdates", faults.unauthorized())
        await world.telegram.user_says("before")
        await world.wait_for_log("; retried every few minutes, or at once by antler reload")
        assert (await world.command("status", "--check"))[0] == 1
        assert (await world.command("reload"))[0] == 0
        await world.telegram.wait_polled()
        await world.telegram.wait_for_text(ALICE, "before")
        assert (await world.command("status", "--check"))[0] == 0


async def test_a_network_that_fails_heals_by_itself(world: World) -> None:
    async with world:
        await world.telegram.fail("getUpdates", faults.bad_gateway())
        await world.telegram.fail("getUpdates", faults.reset())
        await world.telegram.fail("getUpdates", faults.garbage())
        await world.telegram.user_says("the calm")  # ends the poll that is open; the next ones meet the storm
        await world.telegram.wait_for_record(lambda call: call.outcome == "garbage", timeout=15)
        await world.telegram.user_says("through the storm")
        await world.telegram.wait_for_text(ALICE, "You said: through the storm", timeout=20)
        assert world.log.count("connected again") == 1
        assert "Traceback" not in world.log


async def test_a_send_that_meets_a_broken_network_still_comes_once(world: World) -> None:
    async with world:
        await world.telegram.user_says("!pause half")
        await world.telegram.wait_for_text(ALICE, FIRST_HALF)
        await world.telegram.fail("editMessageText", faults.bad_gateway(), times=2)
        await world.telegram.fail("editMessageText", faults.reset(), times=1)
        await world.model.release("half")
        await world.telegram.wait_for_text(ALICE, WHOLE, timeout=20)
        await world.telegram.wait_idle(ALICE)
        assert [m.text for m in await world.telegram.bot_messages(ALICE)] == [WHOLE]


async def test_who_blocks_the_bot_during_an_answer_costs_nobody_else(world: World) -> None:
    world.settings = {"access": {"allow": [f"telegram:{ALICE.id}", f"telegram:{BOB.id}"]}}
    async with world:
        await world.telegram.user_says("!pause half")
        await world.telegram.wait_for_text(ALICE, FIRST_HALF)
        await world.telegram.membership("kicked", user=ALICE)
        await world.model.release("half")
        await world.telegram.wait_for_record(lambda call: call.status == 403 and call.chat_id == ALICE.id)
        await world.telegram.user_says("Bob goes on", user=BOB)
        await world.telegram.wait_for_text(BOB, "Bob goes on")
        await world.telegram.wait_idle(quiet=2.0)
        assert len([c for c in await world.telegram.records(chat=ALICE) if c.status == 403]) <= 2
        await world.telegram.membership("member", user=ALICE)
        await world.telegram.user_says("I am back")
        await world.telegram.wait_for_text(ALICE, "I am back")
        assert await world.stop() == 0


async def test_a_group_that_becomes_a_supergroup_keeps_its_thread(world: World) -> None:
    async with world:
        await world.telegram.group_says("@antler_bot the word is zebra")
        await world.telegram.wait_for_text(TEAM, "zebra")
        await world.telegram.migrate(TEAM, NEW_TEAM)
        moved = type(TEAM)(NEW_TEAM, "supergroup", "Team")
        await world.telegram.group_says("@antler_bot which word?", chat=moved)
        await world.telegram.wait_for_text(moved, "which word?")
        assert "zebra" in str((await world.model.completions())[-1].body["messages"])
        await world.stop()
        await world.start()
        await world.telegram.group_says("@antler_bot and after a restart?", chat=moved)
        await world.telegram.wait_for_text(moved, "after a restart?")
        assert "zebra" in str((await world.model.completions())[-1].body["messages"])


async def test_a_group_that_moves_during_an_answer_gets_it_at_its_new_place(world: World) -> None:
    async with world:
        await world.telegram.group_says("@antler_bot !pause half")
        await world.telegram.wait_for_text(TEAM, FIRST_HALF)
        await world.telegram.migrate(TEAM, NEW_TEAM)
        await world.model.release("half")
        await world.telegram.wait_for_text(NEW_TEAM, WHOLE)
        await world.telegram.wait_idle()
        assert len(await world.telegram.bot_messages(NEW_TEAM)) == 1


async def test_drafts_grow_in_a_dm_and_become_one_message(world: World) -> None:
    world.settings = {"channels": {"telegram": {"streaming": "draft"}}}
    async with world:
        await world.telegram.user_says("!pause half")
        await world.telegram.wait_for_record(lambda call: call.method == "sendMessageDraft" and FIRST_HALF in call.text)
        assert await world.telegram.bot_messages(ALICE) == []
        await world.model.release("half")
        await world.telegram.wait_for_text(ALICE, WHOLE)
        await world.telegram.wait_idle(ALICE)
        (only,) = await world.telegram.bot_messages(ALICE)
        assert only.edits == 0
        await world.telegram.group_says("@antler_bot in a group")
        await world.telegram.wait_for_text(TEAM, "in a group")
        assert await world.telegram.records("sendMessageDraft", chat=TEAM) == []


async def test_drafts_that_are_refused_become_edits(world: World) -> None:
    world.settings = {"channels": {"telegram": {"streaming": "draft"}}}
    async with world:
        await world.telegram.fail("sendMessageDraft", faults.bad_request("method is not available"), times=100)
        await world.telegram.user_says("!pause half")
        draft = await world.telegram.wait_for_text(ALICE, FIRST_HALF)
        await world.model.release("half")
        answer = await world.telegram.wait_for_text(ALICE, WHOLE)
        assert answer.message_id == draft.message_id
        assert len(await world.telegram.records("sendMessageDraft")) == 1


async def test_a_forum_topic_is_a_conversation_of_its_own(world: World) -> None:
    forum = type(TEAM)(TEAM.id, "supergroup", "Team", is_forum=True)
    carol = Person(4001, "Carol")
    async with world:
        await world.telegram.add_chat(forum, threads=[11, 12])
        await world.telegram.group_says("@antler_bot the word is zebra", chat=forum, thread=11)
        answer = await world.telegram.wait_for_text(forum, "zebra")
        assert answer.thread == 11
        await world.telegram.group_says("@antler_bot which word?", chat=forum, thread=12, user=carol)
        other = await world.telegram.wait_for_text(forum, "which word?")
        assert other.thread == 12
        assert "zebra" not in str((await world.model.completions())[-1].body["messages"])
