"""The life of a message, from a person's thumb to the last edit of the answer. Read top to bottom."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.simulators.model.scripts import Call, Pause, Say, ToolUse
from tests.simulators.telegram import faults
from tests.simulators.telegram.seen import ALICE, BOB, TEAM

if TYPE_CHECKING:
    from tests.flow.gateway import World

FIRST_HALF = "The first half of the answer"
WHOLE = "The first half of the answer, and the second half."
HALVES = (Say(text="It is"), Pause(name="noted"), Say(text=" noted."))


async def test_an_answer_grows_in_one_message(world: World) -> None:
    world.whole = True
    async with world:
        said = await world.telegram.user_says("!pause half")
        draft = await world.telegram.wait_for_text(ALICE, FIRST_HALF)
        assert "second half" not in draft.text
        await world.model.release("half")
        answer = await world.telegram.wait_for_text(ALICE, WHOLE)
        assert answer.message_id == draft.message_id
        assert draft.message_id == said.message_id + 1
        await world.telegram.wait_idle(ALICE)
        assert [message.text for message in await world.telegram.bot_messages(ALICE)] == [WHOLE]


async def test_the_answer_is_formatted_and_never_shows_a_link_preview(world: World) -> None:
    async with world:
        await world.telegram.user_says("!say **bold** and [a link](https://example.org) and [bad](javascript:x)")
        answer = await world.telegram.wait_for_text(ALICE, "bold and a link and bad (javascript:x)")
        assert {entity["type"] for entity in answer.entities} == {"bold", "text_link"}
        sends = await world.telegram.records("sendMessage") + await world.telegram.records("editMessageText")
        assert sends
        assert all(call.params["link_preview_options"]["is_disabled"] for call in sends)


async def test_kill_in_mid_answer_loses_nothing_and_doubles_nothing(world: World) -> None:
    world.whole = True
    async with world:
        await world.telegram.user_says("!pause half")
        draft = await world.telegram.wait_for_text(ALICE, FIRST_HALF)
        await world.telegram.wait_idle(ALICE)  # that it was sent is recorded too
        await world.kill()
        await world.telegram.user_says("and while you were away")
        await world.model.release("half")

        await world.start()
        await world.telegram.wait_for_text(ALICE, "while you were away")
        await world.telegram.wait_idle(ALICE, quiet=2.0)  # the old messages go as the chat's rate allows
        answer, second = await world.telegram.bot_messages(ALICE)
        assert (answer.text, answer.silent) == (WHOLE, False)
        assert "while you were away" in second.text
        assert answer.message_id > draft.message_id, "a new message is noticed, and the old one is gone"


@pytest.mark.parametrize("count", [20, pytest.param(400, marks=pytest.mark.slow)])
async def test_what_was_read_before_a_kill_stays_until_the_new_text_has_passed_it(world: World, count: int) -> None:
    async with world:
        await world.telegram.user_says(f"!count {count}\n!pause far\n!say And it goes on.\n!pause end")
        await world.model.wait_for_pause("far")
        draft = await world.telegram.wait_for_text(ALICE, f"{count - 1} {count}")
        await world.telegram.wait_idle(ALICE)
        await world.kill()
        asked = max(record.id for record in await world.model.requests())
        await world.start()
        await world.model.wait_for_request(lambda record: record.id > asked and record.paused_at == "far")
        await world.model.release("far")
        await world.telegram.wait_for_text(ALICE, "And it goes on.")
        await world.model.release("end")
        await world.telegram.wait_idle(ALICE, quiet=2.0)
        (answer,) = await world.telegram.bot_messages(ALICE)
        (bubble,) = [m for m in await world.telegram.messages(ALICE) if m.message_id == draft.message_id]
        assert bubble.deleted_at is not None
        assert bubble.deleted_at > answer.posted_at
        before = max(number for number, version in enumerate(bubble.history) if version.text == draft.text)
        after = [version.text for version in bubble.history[before + 1 :]]
        assert after, "the answer went on"
        assert all(text.startswith(draft.text) for text in after), after


async def test_what_is_said_before_a_tool_call_stands_above_the_answer_also_after_a_kill(world: World) -> None:
    above = "The total is 4,318.20 EUR; I will note that."
    plan = '{"todos": [{"content": "Note the total", "status": "completed"}]}'
    steps = (Say(text=above), Call(calls=(ToolUse(name="write_todos", arguments=plan),)), *HALVES)
    async with world:
        await world.model.script("sum it up", steps, "contains")
        await world.telegram.user_says("sum it up")
        await world.model.wait_for_pause("noted")
        draft = await world.telegram.wait_for_text(ALICE, f"{above}\n\nIt is")
        await world.kill()
        await world.model.release("noted")
        await world.start()
        answer = await world.telegram.wait_for_text(ALICE, f"{above}\n\nIt is noted.")
        assert answer.message_id >= draft.message_id, "what a crash interrupted may end in a message that rings"
        await world.telegram.wait_idle(ALICE)
        assert len(await world.telegram.bot_messages(ALICE)) == 1


async def test_a_planned_stop_says_so_and_goes_on_at_the_next_start(world: World) -> None:
    async with world:
        await world.telegram.user_says("!pause half")
        draft = await world.telegram.wait_for_text(ALICE, FIRST_HALF)
        assert await world.stop() == 0
        paused = await world.telegram.wait_for_text(ALICE, "Paused for a restart")
        assert paused.message_id == draft.message_id
        await world.model.release("half")

        await world.start()
        await world.telegram.wait_for_text(ALICE, WHOLE)
        await world.telegram.wait_idle(ALICE, quiet=2.0)
        (answer,) = await world.telegram.bot_messages(ALICE)
        assert (answer.text, answer.silent) == (WHOLE, False)
        assert answer.message_id > draft.message_id


async def test_the_phone_rings_for_words_and_shows_the_rest_silently(world: World) -> None:
    async with world:
        await world.telegram.user_says("!say The first sentence stands here. And one more.")
        await world.telegram.wait_for_text(ALICE, "And one more.")
        await world.telegram.group_says("@antler_bot !pause half")
        draft = await world.telegram.wait_for_text(TEAM, FIRST_HALF)
        await world.model.release("half")
        answer = await world.telegram.wait_for_text(TEAM, WHOLE)
        for chat in (ALICE, TEAM):
            await world.telegram.wait_idle(chat)
            (message,) = await world.telegram.bot_messages(chat)
            assert not message.silent
            assert message.history[0].text.startswith("The first ")
            assert len(await world.telegram.records("sendMessage", chat=chat)) == 1
            typed = await world.telegram.records("sendChatAction", chat=chat)
            assert typed
            assert typed[0].arrived < message.posted_at
        assert answer.message_id == draft.message_id


async def test_what_waited_silently_ends_in_a_message_that_rings(world: World) -> None:
    world.settings["conversations"] = {"progress": "off", "busy": "queue", "join_seconds": 0}
    async with world:
        await world.telegram.user_says("!pause slow")
        await world.model.wait_for_pause("slow")
        await world.telegram.user_says("my second question")
        queued = await world.telegram.wait_for_text(ALICE, "Queued")
        assert queued.silent
        await world.model.release("slow")
        await world.telegram.wait_for_text(ALICE, "my second question")
        await world.telegram.wait_idle(ALICE, quiet=2.0)
        first, second = await world.telegram.bot_messages(ALICE)
        assert [first.silent, second.silent] == [False, False]
        assert second.message_id > queued.message_id
        (gone,) = [m for m in await world.telegram.messages(ALICE) if m.message_id == queued.message_id]
        assert gone.deleted


async def test_messages_wait_their_turn_in_a_chat_and_other_chats_do_not_wait(world: World) -> None:
    world.settings = {"access": {"allow": [f"telegram:{ALICE.id}", f"telegram:{BOB.id}"]}}
    async with world:
        await world.telegram.user_says("!pause slow")
        await world.model.wait_for_pause("slow")
        await world.telegram.wait_for_text(ALICE, "The first half")  # before that, the second would join the first
        await world.telegram.user_says("my second question")
        await world.telegram.user_says("hello from Bob", user=BOB)
        await world.telegram.wait_for_text(BOB, "hello from Bob")
        assert not any("second question" in m.text for m in await world.telegram.bot_messages(ALICE))
        await world.model.release("slow")
        await world.telegram.wait_for_text(ALICE, "my second question")


async def test_an_update_delivered_twice_is_answered_once(world: World) -> None:
    async with world:
        said = await world.telegram.user_says("just once")
        await world.telegram.wait_for_text(ALICE, "just once")
        assert said.update_id is not None
        await world.telegram.redeliver(said.update_id)
        await world.telegram.wait_idle(ALICE)
        assert len(await world.telegram.bot_messages(ALICE)) == 1
        assert len(await world.model.completions()) == 1


async def test_a_send_that_timed_out_after_it_was_applied_is_not_repeated(world: World) -> None:
    async with world:
        await world.telegram.fail("sendMessage", faults.reset(apply=True), chat=ALICE)
        await world.telegram.user_says("only one bubble please")
        await world.telegram.wait_for_text(ALICE, "only one bubble")
        await world.telegram.wait_idle(ALICE, quiet=1.0)
        messages = await world.telegram.bot_messages(ALICE)
        assert len(messages) == 1, await world.telegram.transcript(ALICE)


async def test_the_answer_to_a_deleted_draft_comes_as_a_new_message(world: World) -> None:
    async with world:
        await world.telegram.user_says("!pause half")
        await world.telegram.wait_for_text(ALICE, FIRST_HALF)
        await world.telegram.fail("editMessageText", faults.bad_request("message to edit not found"), times=1)
        await world.model.release("half")
        answer = await world.telegram.wait_for_text(ALICE, WHOLE)
        assert answer.edits == 0


async def test_in_a_group_a_mention_starts_and_a_reply_continues(world: World) -> None:
    async with world:
        await world.telegram.group_says("lunch at noon?", user=BOB)
        said = await world.telegram.group_says("@antler_bot what did Bob ask?", user=ALICE)
        answer = await world.telegram.wait_for_text(TEAM, "what did Bob ask?")
        assert answer.reply_to == said.message_id
        (request,) = await world.model.completions()
        assert "lunch at noon?" in str(request.body["messages"])
        await world.telegram.group_says("and now?", user=BOB, reply_to=answer.message_id)
        await world.telegram.wait_for_text(TEAM, "and now?")
        assert len((await world.model.completions())[-1].body["messages"]) > len(request.body["messages"])


@pytest.mark.slow
@pytest.mark.long
async def test_sixty_messages_survive_five_kills(world: World) -> None:
    people = [type(ALICE)(2000 + number, f"P{number}") for number in range(6)]
    world.settings = {
        "access": {"allow": [f"telegram:{person.id}" for person in people]},
        "conversations": {"busy": "queue", "join_seconds": 0},  # sixty answers, however fast the next message comes
    }
    async with world:
        for turn in range(5):
            for number, person in enumerate(people):
                await world.telegram.user_says(f"!tokens 20 10 q{turn}-{number}-a", user=person)
                await world.telegram.user_says(f"question {turn}-{number}-b", user=person)
            await asyncio.sleep(0.3 * turn)  # the kill comes at another moment each time
            await world.kill()
            await world.start()
        for number, person in enumerate(people):
            await world.telegram.wait_for_text(person, f"question 4-{number}-b", timeout=40)
        await world.telegram.wait_idle(timeout=20, quiet=1.0)
        for person in people:
            messages = await world.telegram.bot_messages(person)
            finals = [m.text for m in messages if "Resumed" not in m.text and "Working" not in m.text]
            assert len(finals) >= 10, await world.telegram.transcript(person)
            asked = [m for m in finals if "question " in m]
            assert len(asked) == len(set(asked)) == 5, await world.telegram.transcript(person)
