"""What people see when they write while an answer is being made, policy by policy, over the wire."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from bot.texts.en import EN
from harness.threads.operations import CUT_OFF
from tests.simulators.model.scripts import Hang, Pause, Say
from tests.simulators.telegram.seen import ALICE, BOB, TEAM

if TYPE_CHECKING:
    from tests.flow.gateway import World
    from tests.simulators.telegram.seen import Person, Room

HALF = "The first half of the answer"
WHOLE = "The first half of the answer, and the second half."
NOT_FINISHED = f"\n\n{EN.partial}"


@pytest.fixture
def settings(world: World) -> dict[str, Any]:
    """The gateway's settings: people here talk faster than elsewhere."""
    conversations: dict[str, Any] = {}
    world.settings = {
        "access": {"allow": [f"telegram:{ALICE.id}", f"telegram:{BOB.id}"]},
        "channels": {"telegram": {"rate": {"per_chat_per_second": 20, "per_group_per_minute": 1200}}},
        "conversations": conversations,
    }
    return conversations


async def transcript(world: World, chat: Person | Room = ALICE) -> list[str]:
    await world.telegram.wait_idle(chat)
    return [message.text for message in await world.telegram.bot_messages(chat)]


async def press(world: World, message_id: int, label: str, **who: Any) -> str:
    pressed = await world.telegram.press(message_id, label, **who)
    return str((await world.telegram.wait_answered(pressed.callback_id)).get("text"))


async def test_queue_says_where_each_message_stands_and_its_buttons_work(
    world: World, settings: dict[str, Any]
) -> None:
    settings["busy"] = "queue"
    async with world:
        await world.telegram.user_says("!pause half")
        await world.telegram.wait_for_text(ALICE, HALF)
        await world.telegram.user_says("the second")
        second = await world.telegram.wait_for_text(ALICE, EN.queued_next)
        await world.telegram.user_says("the third")
        third = await world.telegram.wait_for_text(ALICE, "Queued, 2nd in line")
        await world.telegram.user_says("the fourth")
        fourth = await world.telegram.wait_for_text(ALICE, "Queued, 3rd in line")
        assert [button["text"] for button in third.buttons] == ["Run now", "Drop"]

        await world.telegram.wait_idle(ALICE)  # that the last one was sent is recorded too
        await world.kill()
        await world.start()
        assert await press(world, third.message_id, "Drop") == EN.pressed["drop"]
        await world.telegram.wait_for_message(
            ALICE, lambda seen: seen.message_id == fourth.message_id and seen.text == "Queued, 2nd in line"
        )
        assert await press(world, fourth.message_id, "Run now") == EN.pressed["now"]
        await world.telegram.wait_for_text(ALICE, "You said: the second")
        dropped, stopped, *others = await transcript(world)
        assert dropped == EN.dropped_by["author"]
        assert EN.stopped_by["run_now"] in stopped
        assert others == ["You said: the fourth", "You said: the second"]
        shown = await world.telegram.bot_messages(ALICE)
        assert shown[0].message_id == third.message_id, "what nobody waits for is told in the notice"
        assert not {second.message_id, fourth.message_id} & {message.message_id for message in shown}
        assert not any(message.buttons or message.silent for message in shown[1:])
        assert not shown[0].buttons


async def test_collect_answers_what_waited_together(world: World, settings: dict[str, Any]) -> None:
    settings["busy"] = "collect"
    async with world:
        await world.telegram.user_says("!pause half")
        await world.telegram.wait_for_text(ALICE, HALF)
        for text in ("the second", "the third", "the fourth"):
            await world.telegram.user_says(text)
        await world.telegram.wait_for_text(ALICE, "Queued, next in line: 3 messages, answered together")
        await world.model.release("half")
        await world.telegram.wait_for_text(ALICE, "the fourth")
        assert await transcript(world) == [WHOLE, "You said: the second\nthe third\nthe fourth"]
        assert len(await world.model.completions()) == 2


async def test_interrupt_stops_and_the_model_knows_what_was_stopped(world: World, settings: dict[str, Any]) -> None:
    settings["busy"] = "interrupt"
    async with world:
        await world.telegram.user_says("!pause half")
        await world.telegram.wait_for_text(ALICE, HALF)
        await world.telegram.user_says("rather this")
        await world.telegram.wait_for_text(ALICE, "You said: rather this")
        stopped = f"{HALF},\n\n⏹ Stopped, because you wrote something new.{NOT_FINISHED}"
        assert await transcript(world) == [stopped, "You said: rather this"]
        *_, asked, read, _ = (await world.model.completions())[-1].body["messages"]
        assert "!pause half" in str(asked["content"])
        assert (read["role"], read["content"]) == ("assistant", f"{HALF},\n\n{CUT_OFF}")


async def test_rollback_stops_and_the_model_never_hears_of_it(world: World, settings: dict[str, Any]) -> None:
    settings["busy"] = "rollback"
    async with world:
        await world.telegram.user_says("remember the zebra")
        await world.telegram.wait_for_text(ALICE, "You said: remember the zebra")
        await world.telegram.user_says("!pause half")
        await world.telegram.wait_for_text(ALICE, HALF)
        await world.telegram.user_says("rather this")
        await world.telegram.wait_for_text(ALICE, "You said: rather this")
        stopped = f"{HALF},\n\n{EN.stopped_by['rollback']}{EN.forgotten}{NOT_FINISHED}"
        assert await transcript(world) == ["You said: remember the zebra", stopped, "You said: rather this"]
        seen = str((await world.model.completions())[-1].body["messages"])
        assert "zebra" in seen
        assert "!pause" not in seen
        assert "interrupted" not in seen


async def test_reject_refuses_and_says_so(world: World, settings: dict[str, Any]) -> None:
    settings["busy"] = "reject"
    async with world:
        await world.telegram.user_says("!pause half")
        await world.telegram.wait_for_text(ALICE, HALF)
        await world.telegram.user_says("the second")
        await world.telegram.user_says("the third")
        refused = EN.refusals["busy"].format(count=2, limit=20)
        await world.telegram.wait_for_text(ALICE, refused)
        await world.model.release("half")
        await world.telegram.wait_for_text(ALICE, WHOLE)
        await world.telegram.user_says("the fourth")
        await world.telegram.wait_for_text(ALICE, "You said: the fourth")
        assert await transcript(world) == [WHOLE, refused, "You said: the fourth"]
        assert "the third" not in str((await world.model.completions())[-1].body["messages"])


async def test_in_a_group_nobody_interrupts_another_and_queue_lists_both(
    world: World, settings: dict[str, Any]
) -> None:
    settings["busy"] = "interrupt"
    async with world:
        await world.telegram.group_says("@antler_bot !pause half", user=ALICE)
        await world.telegram.wait_for_text(TEAM, HALF)
        await world.telegram.group_says("@antler_bot me too", user=BOB)
        waiting = await world.telegram.wait_for_text(TEAM, EN.queued_next)
        await world.telegram.group_says("/queue@antler_bot", user=ALICE)
        listed = await world.telegram.wait_for_text(TEAM, "Waiting:")
        assert "!pause half" in listed.text
        assert "1. me too (Bob" in listed.text
        assert await press(world, waiting.message_id, "Drop", user=ALICE, chat=TEAM) == EN.pressed["not_yours"]
        assert await press(world, waiting.message_id, "Run now", user=BOB, chat=TEAM) == EN.pressed["not_yours_to_stop"]
        await world.model.release("half")
        await world.telegram.wait_for_text(TEAM, "You said: me too")
        assert WHOLE in await transcript(world, TEAM)


async def test_a_failed_answer_is_tried_again_by_its_button_and_retry_forgets_the_first_answer(
    world: World, settings: dict[str, Any]
) -> None:
    async with world:
        await world.telegram.user_says("!status 400 times=1")
        failed = await world.telegram.wait_for_text(ALICE, "did not accept")
        assert [button["text"] for button in failed.buttons] == [EN.button_retry]
        assert await press(world, failed.message_id, EN.button_retry) == EN.pressed["retry"]
        answer = await world.telegram.wait_for_message(ALICE, lambda seen: seen.message_id > failed.message_id)
        await world.telegram.user_says("the next")
        await world.telegram.wait_for_text(ALICE, "You said: the next")
        await world.telegram.wait_idle(ALICE)  # the whole text is there a moment before the run has ended
        await world.telegram.user_says("/retry")
        await world.telegram.wait_idle(ALICE)
        shown = await world.telegram.bot_messages(ALICE)
        assert [message.text for message in shown[-2:]] == ["You said: the next"] * 2
        assert shown[1].message_id == answer.message_id
        assert not any(message.buttons for message in shown)
        said = [m["content"] for m in (await world.model.completions())[-1].body["messages"] if m["role"] == "user"]
        assert sum("the next" in str(content) for content in said) == 1


async def test_quick_messages_are_one_turn(world: World, settings: dict[str, Any]) -> None:
    settings["debounce_seconds"] = 1
    async with world:
        await world.telegram.user_says("hello")
        await world.telegram.user_says("one more thing")
        await world.telegram.wait_for_text(ALICE, "one more thing")
        assert await transcript(world) == ["You said: hello\none more thing"]


async def test_what_follows_before_anything_is_seen_is_answered_together(
    world: World, settings: dict[str, Any]
) -> None:
    async with world:
        await world.telegram.user_says("remember the zebra")
        await world.telegram.wait_for_text(ALICE, "You said: remember the zebra")
        await world.model.script(
            "and more", [Say(text=HALF), Pause(name="both"), Say(text=WHOLE[len(HALF) :])], "contains"
        )
        await world.model.script("the request", [Hang()], "contains")
        await world.telegram.user_says("the request")
        await world.model.wait_for_request(lambda asked: "the request" in asked.last_user_text)
        await world.telegram.user_says("and more")
        asked = await world.model.wait_for_pause("both")
        await world.telegram.wait_for_text(ALICE, HALF)
        await world.telegram.wait_idle(ALICE)  # that it was sent is recorded too
        await world.kill()
        await world.start()
        await world.model.release("both")
        await world.telegram.wait_for_text(ALICE, WHOLE)
        assert await transcript(world) == ["You said: remember the zebra", WHOLE]
        said = [message["content"] for message in asked.body["messages"] if message["role"] == "user"]
        assert len(said) == 2
        assert "the request\nand more" in str(said[-1])
        assert "interrupted" not in str(asked.body["messages"][1:])


async def test_a_message_is_passed_on_to_the_answer_at_work(world: World, settings: dict[str, Any]) -> None:
    plan = json.dumps({"todos": [{"content": "look", "status": "in_progress"}]})
    async with world:
        await world.telegram.user_says(f"!pause half\n!tool write_todos {plan}")
        await world.telegram.wait_for_text(ALICE, HALF)
        await world.telegram.user_says("!pause later")
        passed_on = await world.telegram.wait_for_text(ALICE, EN.steering)
        assert [button["text"] for button in passed_on.buttons] == ["Run now", "Drop"]

        await world.model.release("half")
        heard = await world.model.wait_for_pause("later")
        await world.telegram.wait_for_text(ALICE, EN.steered)
        assert [m["role"] for m in heard.body["messages"]][-4:] == ["user", "assistant", "tool", "user"]

        await world.telegram.wait_idle(ALICE)
        await world.kill()  # it was heard, and nothing is answered
        await world.start()
        await world.model.release("later")
        both = f"{WHOLE}\n\n{WHOLE}"  # what it said before it heard more, and after
        await world.telegram.wait_for_text(ALICE, both)
        await world.telegram.wait_idle(ALICE)
        acknowledged, answer = await world.telegram.bot_messages(ALICE)
        assert (answer.text, acknowledged.text) == (both, EN.steered)
        assert not answer.silent
        assert acknowledged.message_id == passed_on.message_id
        assert not acknowledged.buttons
        last = (await world.model.completions())[-1].body["messages"]
        assert sum("!pause later" in str(message["content"]) for message in last) == 1
