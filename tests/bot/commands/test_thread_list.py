"""/threads: the threads of one conversation, and back to one of them by button or number; never to another's."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from bot.store import conversations, runs
from bot.texts.en import EN
from tests.bot.core import ANN, BOB, Core, core
from tests.bot.store.samples import pruned
from tests.memory_channel import NO_BUTTONS

if TYPE_CHECKING:
    from pathlib import Path

HEAD, HERE, HINT = EN.threads["head"], EN.threads["here"], EN.threads["hint"]


async def said(c: Core, text: str, person: str = BOB, chat: str | None = None) -> str:
    """What is answered."""
    before = len(c.texts(chat or person))
    await c.say(text, person, chat)
    await c.answered()
    await c.clock.advance(60)
    return "\n".join(c.texts(chat or person)[before:])


async def two_threads(c: Core, person: str = BOB, chat: str | None = None) -> list[str]:
    """One about cats, then one with a name; their ids."""
    await said(c, "tell me of cats", person, chat)
    await said(c, "and more", person, chat)
    await said(c, "/new Dogs", person, chat)
    await said(c, "woof", person, chat)
    return list(dict.fromkeys(start.ctx.thread_id for start in c.harness.starts))


def line(number: int, title: str, time: str, messages: int, here: bool = False) -> str:
    count = EN.threads["messages"].format(count=messages)
    told = EN.threads["line"].format(number=number, title=title, date=f"2026-01-01 {time}", messages=count)
    return told + (HERE if here else "")


async def test_it_lists_them_newest_first_and_a_button_goes_back(tmp_path: Path) -> None:
    async with core(tmp_path, timezone="Asia/Shanghai") as c:
        cats, dogs = await two_threads(c)
        assert (await said(c, "/threads")).splitlines() == [
            HEAD,
            line(1, "Dogs", "08:03", 1, here=True),
            line(2, "tell me of cats", "08:01", 2),
            "",
            HINT,
        ]
        bubble = c.channel.chats[BOB][-1]
        assert [row[0].label for row in bubble.part.buttons] == ["● Dogs", "tell me of cats"]
        await c.press(bubble.message_id, bubble.part.buttons[1][0].data, BOB)
        await c.answered()
        assert c.channel.acknowledged[-1][1] == "🧵 Back in tell me of cats."
        assert line(2, "tell me of cats", "08:01", 2, here=True) in c.texts(BOB)[-1]
        await said(c, "where were we?")
        assert c.harness.starts[-1].ctx.thread_id == cats
        assert line(1, "tell me of cats", "08:05", 3, here=True) in await said(c, "/threads")
        assert dogs != cats


async def test_after_a_button_the_numbers_are_those_that_a_command_takes(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, "tell me of cats")
        await said(c, "/new Birds")  # never used, so it is gone once another one is current
        await said(c, "/threads")
        bubble = c.channel.chats[BOB][-1]
        await c.press(bubble.message_id, bubble.part.buttons[1][0].data, BOB)
        await c.answered()
        assert c.texts(BOB)[-1].splitlines()[1:3] == [line(1, "tell me of cats", "00:00", 1, here=True), ""]


async def test_dates_are_those_of_the_chat(tmp_path: Path) -> None:
    async with core(tmp_path, timezone="Asia/Shanghai") as c:
        await said(c, "/timezone Europe/Berlin", ANN)
        await two_threads(c, ANN)
        assert line(1, "Dogs", "01:04", 1, here=True) in await said(c, "/threads", ANN)
        bubble = c.channel.chats[ANN][-1]
        await c.press(bubble.message_id, bubble.part.buttons[1][0].data, ANN)
        await c.answered()
        assert line(1, "Dogs", "01:04", 1) in c.texts(ANN)[-1]


async def test_a_number_does_too(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        cats, dogs = await two_threads(c)
        assert await said(c, "/threads 2") == EN.threads["resumed"].format(title="tell me of cats")
        await said(c, "back")
        assert c.harness.starts[-1].ctx.thread_id == cats
        assert await said(c, "/threads 2") == EN.threads["resumed"].format(title="Dogs")
        await said(c, "back")
        assert c.harness.starts[-1].ctx.thread_id == dogs
        for wrong in ("0", "3", "-1", "x", "9999", "²"):
            assert await said(c, f"/threads {wrong}") == EN.threads["unknown"]


async def test_where_there_are_no_buttons_the_number_alone_is_enough(tmp_path: Path) -> None:
    async with core(tmp_path, mode=NO_BUTTONS) as c:
        cats, _ = await two_threads(c)
        await said(c, "/threads")
        await said(c, "2")
        await said(c, "back")
        assert c.harness.starts[-1].ctx.thread_id == cats


async def test_not_while_something_runs(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        _, dogs = await two_threads(c)
        await said(c, "/threads")
        bubble = c.channel.chats[BOB][-1]
        gate = c.harness.hold("long")
        await c.say("long", BOB)
        await c.press(bubble.message_id, bubble.part.buttons[1][0].data, BOB)
        await c.say("/threads 2", BOB)
        await c.clock.advance(2)
        assert c.channel.acknowledged[-1][1] == EN.threads["busy"]
        assert c.texts(BOB)[-1] == EN.threads["busy"]
        gate.set()
        await c.answered()
        await said(c, "next")
        assert c.harness.starts[-1].ctx.thread_id == dogs


async def test_in_a_group_it_is_as_new(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await two_threads(c, ANN, "g")
        assert HEAD in await said(c, "/threads", BOB, "g")
        assert await said(c, "/threads 2", BOB, "g") == EN.not_allowed
        assert await said(c, "/threads 2", ANN, "g") == EN.threads["resumed"].format(title="tell me of cats")


async def test_a_conversation_sees_and_gets_only_its_own(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        cats, dogs = await two_threads(c, ANN)
        await said(c, "in the group", ANN, "g")
        await said(c, "mine", BOB)
        for person, chat in ((BOB, None), (ANN, "g")):
            told = await said(c, "/threads", person, chat)
            assert "cats" not in told
            assert "Dogs" not in told
        for key in (f"memory:{BOB}", "memory:g"):
            for thread_id in (cats, dogs):
                with pytest.raises(LookupError):
                    await c.store.write(partial(conversations.resume_thread, key=key, thread_id=thread_id))


async def test_empty_ones_are_left_out_and_pruned_ones_stay(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        cats, _ = await two_threads(c)
        await said(c, "/new")
        await said(c, "/new")
        await pruned(c.store, runs, c.clock.now())
        told = await said(c, "/threads")
        assert told.count(". `") == 3
        assert f". `{EN.status['untitled']}`" in told
        assert await said(c, "/threads 3") == EN.threads["resumed"].format(title=EN.status["untitled"])
        await said(c, "still there")
        assert c.harness.starts[-1].ctx.thread_id == cats
