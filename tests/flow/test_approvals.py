"""A tool call that a person has to allow, and a question that the agent asks: in the chat, over crashes, from evil."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from bot.texts.en import EN
from tests.flow.letters import Letters
from tests.simulators.telegram.seen import ALICE, BOB, TEAM

if TYPE_CHECKING:
    from tests.flow.gateway import World
    from tests.simulators.telegram.seen import Person, Room, SeenMessage

ONCE, CHAT, DENY, WHY, STOP = EN.approval_buttons.values()
ASKS = "I need a decision before I continue."
ALLOWED, DENIED, EXPIRED, STOPPED = (
    text.partition("**")[2].partition(":**")[0]
    for text in (EN.approval_decided[key] for key in ("once", "deny", "expired", "stopped"))
)
NOT_DONE = "the person who was asked did not allow it"


def letter(to: str, *more: str) -> str:
    """What makes the model send a letter."""
    return "\n".join([f"!tool send_letter {json.dumps({'to': to})}", *more])


@pytest.fixture
def letters(world: World) -> Letters:
    """What was sent. Letters are asked for; Bob is an administrator."""
    letters = Letters(world.folder)
    world.environment |= letters.environment
    world.settings = {
        "access": {"allow": [f"telegram:{ALICE.id}"], "admins": [f"telegram:{BOB.id}"]},
        "channels": {"telegram": {"rate": {"per_chat_per_second": 20, "per_group_per_minute": 1200}}},
        "tools": [{"use": "tests.flow.letters:send_letter"}],
        "guardrails": {"rules": [{"tool": "send_letter", "decision": "ask", "reason": "It cannot be taken back."}]},
    }
    return letters


async def request(world: World, text: str, chat: Person | Room = ALICE) -> SeenMessage:
    """The open request that shows this text."""
    return await world.telegram.wait_for_message(
        chat, lambda seen: ASKS in seen.text and text in seen.text and bool(seen.buttons)
    )


async def press(world: World, seen: SeenMessage, label: str, **who: Any) -> str:
    pressed = await world.telegram.press(seen.message_id, label, **who)
    return str((await world.telegram.wait_answered(pressed.callback_id)).get("text"))


async def shown(world: World, seen: SeenMessage, text: str, chat: Person | Room = ALICE) -> SeenMessage:
    """That message, once it shows the text."""
    return await world.telegram.wait_for_message(chat, lambda m: m.message_id == seen.message_id and text in m.text)


async def test_a_call_is_asked_for_and_made_once_it_is_allowed(world: World, letters: Letters) -> None:
    async with world:
        await world.telegram.user_says(letter("Ann"))
        asked = await request(world, "to: Ann")
        assert [button["text"] for button in asked.buttons] == [ONCE, CHAT, DENY, WHY]
        assert "It cannot be taken back" in asked.text
        assert letters.sent == []
        assert await press(world, asked, ONCE) == EN.approval_answers["once"]
        await world.telegram.wait_for_text(ALICE, "the letter to Ann is sent")
        decided = await shown(world, asked, ALLOWED)
        assert decided.buttons == []
        assert letters.sent == ["Ann"]
        await world.telegram.wait_idle(ALICE)
        assert len(await world.telegram.bot_messages(ALICE)) == 2


async def test_a_denial_with_the_reason_in_a_reply_after_a_crash(world: World, letters: Letters) -> None:
    async with world:
        await world.telegram.user_says(letter("Ann"))
        asked = await request(world, "to: Ann")
        assert await press(world, asked, WHY) == EN.approval_answers["why"]
        waits = await shown(world, asked, "Denied once you have said why")
        assert [button["text"] for button in waits.buttons] == [DENY]
        question = await world.telegram.wait_for_text(ALICE, EN.approval_write_why)
        assert question.asks_reply == {"force_reply": True, "selective": False}
        await world.telegram.wait_idle(ALICE)  # that it was sent is recorded too
        await world.kill()
        await world.start()
        await world.telegram.user_says("she has moved", reply_to=question.message_id)
        answer = await world.telegram.wait_for_text(ALICE, NOT_DONE)
        assert "They said: she has moved" in answer.text
        await shown(world, asked, "Reason: she has moved")
        assert letters.sent == []


async def test_a_request_after_a_denial_that_is_to_be_explained_is_never_its_reason(
    world: World, letters: Letters
) -> None:
    world.settings["access"]["groups"] = {"allow": [f"telegram:{TEAM.id}"]}
    async with world:
        await world.telegram.group_says(f"@antler_bot {letter('Ann')}", chat=TEAM, user=ALICE)
        await press(world, await request(world, "to: Ann", TEAM), WHY, chat=TEAM)
        question = await world.telegram.wait_for_text(TEAM, EN.approval_write_why)
        assert question.asks_reply == {"force_reply": True, "selective": True}
        await world.telegram.group_says("@antler_bot Book a table", chat=TEAM, user=ALICE)
        await world.telegram.wait_for_text(TEAM, "You said: Book a table")
        denied = await world.telegram.wait_for_text(TEAM, NOT_DONE)
        assert "They said" not in denied.text

        await world.telegram.group_says(f"@antler_bot {letter('Ben')}", chat=TEAM, user=ALICE)
        await press(world, await request(world, "to: Ben", TEAM), WHY, chat=TEAM)
        await world.telegram.wait_for_message(
            TEAM, lambda seen: seen.asks_reply is not None and seen.message_id != question.message_id
        )
        await world.telegram.group_says("@antler_bot he has moved", chat=TEAM, user=ALICE)
        await world.telegram.wait_for_text(TEAM, "They said: he has moved")
        await world.telegram.wait_idle(TEAM)
        assert sum(seen.asks_reply is not None for seen in await world.telegram.bot_messages(TEAM)) == 2
        assert letters.sent == []


async def test_for_this_chat_is_not_asked_again_until_it_is_taken_back(world: World, letters: Letters) -> None:
    async with world:
        await world.telegram.user_says(letter("Ann"))
        await press(world, await request(world, "to: Ann"), CHAT)
        await world.telegram.wait_for_text(ALICE, "to Ann is sent")
        await world.telegram.user_says(letter("Ben"))
        await world.telegram.wait_for_text(ALICE, "to Ben is sent")
        await world.telegram.user_says("/approvals")
        listed = await world.telegram.wait_for_text(ALICE, "Allowed in this chat without asking")
        assert "send_letter" in listed.text
        assert await press(world, listed, f"1 · {EN.button_take_back}") == EN.approval_answers["taken_back"]
        await shown(world, listed, "Nothing extra is allowed in this chat")
        await world.telegram.user_says(letter("Cid"))
        await press(world, await request(world, "to: Cid"), DENY)
        await world.telegram.wait_for_text(ALICE, NOT_DONE)
        assert letters.sent == ["Ann", "Ben"]


async def test_only_the_requester_or_an_administrator_decides_and_once(world: World, letters: Letters) -> None:
    access = {"groups": {"allow": [f"telegram:{TEAM.id}"]}, "allow": [f"telegram:{ALICE.id}", "telegram:4711"]}
    world.settings["access"] |= access
    other = type(ALICE)(4711, "Carol")
    async with world:
        await world.telegram.group_says(f"@antler_bot {letter('Ann')}", chat=TEAM, user=ALICE)
        asked = await request(world, "to: Ann", TEAM)
        refused = await press(world, asked, ONCE, chat=TEAM, user=other)
        assert refused == EN.approval_answers["not_yours"]
        assert letters.sent == []
        assert await press(world, asked, ONCE, chat=TEAM, user=BOB) == EN.approval_answers["once"]
        await shown(world, asked, ALLOWED, TEAM)
        await world.telegram.wait_for_text(TEAM, "to Ann is sent")
        assert letters.sent == ["Ann"]


async def test_several_at_once_and_what_is_written_meanwhile(world: World, letters: Letters) -> None:
    calls = " ".join(f"send_letter {json.dumps({'to': name})}" for name in ("Ann", "Ben"))
    async with world:
        await world.telegram.user_says(f"!tools {calls}")
        first, second = await request(world, "to: Ann"), await request(world, "to: Ben")
        await world.telegram.user_says("and what is the weather?")
        waiting = await world.telegram.wait_for_text(ALICE, "First I need your decision")
        assert [button["text"] for button in waiting.buttons] == [ONCE, DENY, STOP]
        assert await press(world, waiting, DENY) == EN.approval_answers["deny"]
        denied = await world.telegram.wait_for_text(ALICE, DENIED)
        assert denied.message_id in (first.message_id, second.message_id)
        left = second if denied.message_id == first.message_id else first
        assert letters.sent == []
        await press(world, left, ONCE)
        await world.telegram.wait_for_text(ALICE, "is sent")
        weather = await world.telegram.wait_for_text(ALICE, "You said: and what is the weather?")
        assert weather.message_id > waiting.message_id
        assert len(letters.sent) == 1


@pytest.mark.parametrize("command", ["/stop", "/new", "button"])
async def test_stop_and_new_deny_and_settle(world: World, letters: Letters, command: str) -> None:
    async with world:
        await world.telegram.user_says(letter("Ann"))
        asked = await request(world, "to: Ann")
        await world.telegram.user_says("still there?")
        waiting = await world.telegram.wait_for_text(ALICE, "First I need your decision")
        if command == "button":
            assert await press(world, waiting, STOP) == EN.approval_answers["stop"]
        else:
            await world.telegram.user_says(command)
        stopped = await shown(world, asked, STOPPED)
        assert stopped.buttons == []
        await world.telegram.user_says("hello again")
        await world.telegram.wait_for_text(ALICE, "hello again")
        assert letters.sent == []


async def test_what_nobody_decides_is_denied_also_over_a_restart(world: World, letters: Letters) -> None:
    world.settings["guardrails"]["ask_seconds"] = 3
    await world.start()
    await world.telegram.user_says(letter("Ann"))
    asked = await request(world, "to: Ann")
    await world.telegram.wait_idle(ALICE)
    await world.kill()
    async with world:
        await shown(world, asked, EXPIRED)
        await world.telegram.wait_for_text(ALICE, NOT_DONE)
        await world.telegram.wait_idle(ALICE)
        assert letters.sent == []
        assert len(await world.telegram.bot_messages(ALICE)) == 2


async def test_a_decision_survives_kills_at_every_step(world: World, letters: Letters) -> None:
    await world.start()
    await world.telegram.user_says(letter("Ann"))
    asked = await request(world, "to: Ann")
    for _ in range(4):  # as often as an attempt without progress would be given up
        await world.kill()
        await world.start()
    await world.telegram.wait_idle(ALICE)
    await world.kill()
    pressed = await world.telegram.press(asked.message_id, ONCE)  # while nobody listens
    late = await world.telegram.press(asked.message_id, DENY)
    async with world:
        await world.telegram.wait_answered(pressed.callback_id)
        answer = await world.telegram.wait_answered(late.callback_id)
        assert answer.get("text") == "Already allowed once, by you."
        await world.telegram.wait_for_text(ALICE, "to Ann is sent")
        await shown(world, asked, ALLOWED)
        await world.telegram.wait_idle(ALICE)
        assert len(await world.telegram.bot_messages(ALICE)) == 2
        assert letters.sent == ["Ann"]


async def test_a_planned_stop_goes_on_waiting(world: World, letters: Letters) -> None:
    await world.start()
    await world.telegram.user_says(letter("Ann"))
    asked = await request(world, "to: Ann")
    assert await world.stop() == 0
    async with world:
        await press(world, asked, ONCE)
        await world.telegram.wait_for_text(ALICE, "to Ann is sent")
        assert letters.sent == ["Ann"]


async def test_waiting_takes_no_time_of_the_run_and_no_slot(world: World, letters: Letters) -> None:
    world.settings["limits"] = {"run_seconds": 2, "concurrent_runs": 1}
    world.settings["access"]["allow"].append(f"telegram:{BOB.id}")
    async with world:
        await world.telegram.user_says(letter("Ann"))
        asked = await request(world, "to: Ann")
        await world.telegram.user_says("!tokens 20 60", user=BOB)
        await world.telegram.wait_for_message(BOB, lambda seen: seen.text.count(" ") >= 18)
        await world.telegram.user_says("!tokens 20 60", user=BOB)
        await world.telegram.wait_for_message(BOB, lambda seen: seen.text.count(" ") >= 18)
        await press(world, asked, ONCE)
        await world.telegram.wait_for_text(ALICE, "to Ann is sent")


# What the agent asks.


def question(**changes: Any) -> str:
    asked = {"question": "Which year?", "options": ["2024", "2025"], "context": "There are two reports."}
    return f"!tool ask_clarification {json.dumps(asked | changes)}"


async def test_a_pressed_option_answers_the_question(world: World, letters: Letters) -> None:
    async with world:
        await world.telegram.user_says(question())
        asked = await world.telegram.wait_for_message(ALICE, lambda seen: bool(seen.buttons))
        assert asked.text == "There are two reports.\n\nWhich year?"
        assert [button["text"] for button in asked.buttons] == ["2024", "2025"]
        await world.telegram.wait_idle(ALICE)
        await world.kill()
        await world.start()
        assert await press(world, asked, "2025") == f"☑ 2025 · {EN.working}"
        await world.telegram.wait_for_text(ALICE, "You said: 2025")
        shown = await world.telegram.wait_for_message(
            ALICE, lambda seen: seen.message_id == asked.message_id and not seen.buttons
        )
        assert shown.text == "There are two reports.\n\nWhich year?\n\n☑ 2025"
        (_, second) = await world.model.completions()
        assert "Which year?" in str(second.body["messages"])


async def test_the_next_message_answers_it_and_then_no_button_does(world: World, letters: Letters) -> None:
    async with world:
        await world.telegram.user_says(question())
        asked = await world.telegram.wait_for_message(ALICE, lambda seen: bool(seen.buttons))
        await world.telegram.user_says("rather 2023")
        await world.telegram.wait_for_text(ALICE, "You said: rather 2023")
        shown = await world.telegram.wait_for_message(
            ALICE, lambda seen: seen.message_id == asked.message_id and not seen.buttons
        )
        assert shown.text == "There are two reports.\n\nWhich year?\n\n☑ rather 2023"
        assert len(await world.model.completions()) == 2


async def test_a_typed_option_stands_in_its_question_as_it_was_offered(world: World, letters: Letters) -> None:
    async with world:
        await world.telegram.user_says(question(options=["This year", "Last year"]))
        asked = await world.telegram.wait_for_message(ALICE, lambda seen: bool(seen.buttons))
        await world.telegram.user_says("last  YEAR")
        await world.telegram.wait_for_message(
            ALICE, lambda seen: seen.message_id == asked.message_id and seen.text.endswith("\n\n☑ Last year")
        )


async def test_an_open_question_and_long_options(world: World, letters: Letters) -> None:
    async with world:
        long = "the whole report of the year before the last one, with all of its tables"
        await world.telegram.user_says(question(options=["short", long]))
        asked = await world.telegram.wait_for_message(ALICE, lambda seen: bool(seen.buttons))
        assert f"2. {long}" in asked.text
        await press(world, asked, str(asked.buttons[1]["text"]))
        await world.telegram.wait_for_text(ALICE, f"You said: {long}")
        await world.telegram.user_says(question(options=[]))
        await world.telegram.wait_for_message(
            ALICE, lambda seen: seen.message_id != asked.message_id and "Which year?" in seen.text and not seen.buttons
        )
