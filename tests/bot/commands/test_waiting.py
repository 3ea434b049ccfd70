"""/queue, /retry and their buttons."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bot.store import runs
from bot.store.rows import RunRow, RunState
from bot.texts.en import EN
from channels.message import Attachment
from harness.events import FailureKind
from tests.bot.conversations.test_policies import bubble, press
from tests.bot.core import ANN, BOB, Core, core
from tests.delivery_world import Tripwire

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.events import AnyRunEvent
    from tests.bot.scripted_harness import Teller


async def asked(c: Core, text: str, person: str = ANN, chat: str | None = None) -> str:
    """The answer to a command."""
    await c.say(text, person, chat)
    await c.clock.advance(2)
    return c.texts(chat or person)[-1]


async def newest(c: Core, person: str = ANN) -> RunRow:
    rows: list[RunRow] = await c.store.read(lambda tx: runs.recent(tx, f"memory:{person}", 1))
    return rows[0]


def labels(c: Core, chat: str = ANN) -> list[list[str]]:
    return [[button.label for button in row] for row in bubble(c, -1, chat).part.buttons]


def failing(kind: FailureKind) -> Callable[[Teller], AnyRunEvent]:
    return lambda tell: tell.failed(kind)


# /queue


async def test_queue_tells_what_runs_and_what_waits(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        assert await asked(c, "/queue") == EN.queue_nothing
        c.harness.hold("first `code`")
        await c.say("first `code`")
        await c.clock.advance(60)
        assert await asked(c, "/queue") == "**Now:** `first 'code'` (`Ann`, for 60 s)"
        assert labels(c) == []
        await c.say("second\nline")
        await c.clock.advance(120)
        await c.say("third")
        c.channel.files = {"a.pdf": b"x"}
        c.channel.downloads = asyncio.Event()
        await c.say("look", attachments=(Attachment(ref="a.pdf", kind="file", name="a.pdf"),))
        lines = (await asked(c, "/queue")).split("\n\n")
        assert lines == [
            "**Now:** `first 'code'` (`Ann`, for 3 min)",
            "**Waiting:**",
            "1. `second line` (`Ann`, for 2 min)",
            "2. `third` (`Ann`, for 0 s)",
            "1 more still arriving",
            EN.queue_hint,
        ]
        assert labels(c) == [["1 · Run now", "1 · Drop"], ["2 · Run now", "2 · Drop"]]


async def test_a_long_list_is_cut(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("first")
        await c.say("first")
        for number in range(11):
            await c.say(f"m{number}")
        await c.clock.advance(9)
        text = await asked(c, "/queue")
        assert "8. `m7`" in text
        assert "m8" not in text
        assert "… and 3 more" in text
        assert len(labels(c)) == 8


async def test_the_list_is_shown_anew_after_each_press_and_survives_a_restart(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        for text in ("first", "third"):
            c.harness.hold(text)
        for text in ("first", "second", "third"):
            await c.say(text)
        await asked(c, "/queue")
        await c.restart()
        listed = bubble(c, -1)
        assert await press(c, listed, "1 · Drop") == EN.pressed["drop"]
        await c.clock.advance(2)
        assert "`second`" not in listed.text
        assert "1. `third`" in listed.text
        assert await press(c, listed, "1 · Run now") == EN.pressed["now"]
        await c.clock.advance(2)
        assert c.harness.asked[-1] == "third"
        assert c.texts()[1] == EN.dropped_by["author"]
        assert "**Now:** `third`" in listed.text
        assert listed.part.buttons == ()


async def test_in_a_group_the_list_is_everybodys_and_its_buttons_are_not(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("anns")
        await c.say("anns", ANN, "g")
        await c.say("more", ANN, "g")
        assert "`more`" in await asked(c, "/queue", BOB, "g")
        assert await press(c, bubble(c, -1, "g"), "1 · Drop", BOB, "g") == EN.pressed["not_yours"]
        assert await asked(c, "/queue clear", BOB, "g") == EN.queue_none_yours
        await c.say("bobs", BOB, "g")
        assert await asked(c, "/queue clear", BOB, "g") == "1 waiting message(s) dropped."
        assert EN.dropped_by["author"] in c.texts("g")
        await c.say("bobs again", BOB, "g")
        assert await asked(c, "/queue clear", ANN, "g") == "2 waiting message(s) dropped."
        assert c.texts("g").count(EN.dropped_by["admin"]) == 2


async def test_clear_drops_what_still_arrives_and_lets_the_next_go_on(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.channel.downloads = asyncio.Event()
        await c.say("look", BOB, "g", attachments=(Attachment(ref="a", kind="file", name="a"),))
        await c.say("held back", ANN, "g")
        assert c.harness.asked == []
        await asked(c, "/queue clear", BOB, "g")
        await c.answered()
        assert c.harness.asked == ["held back"]


# /retry


async def test_retry_answers_the_last_exchange_again_from_where_it_began(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.channel.files = {"a.txt": b"a"}
        await c.say("before")
        await c.say("again?", attachments=(Attachment(ref="a.txt", kind="file", name="a.txt"),))
        await c.answered()
        await c.say("/models other")
        await c.say("/retry")
        await c.answered()
        assert c.texts()[1::2] == ["echo: again?", "echo: again?"]
        assert c.harness.rewinds == ["1"]
        one, two = c.harness.starts[-2:]
        assert one.run_input == two.run_input
        assert (one.ctx.thread_id, one.ctx.speaker) == (two.ctx.thread_id, two.ctx.speaker)
        assert (one.ctx.model, two.ctx.model) == ("main", "other")
        assert (await newest(c)).base_checkpoint_id == "1"


async def test_retry_of_the_first_exchange_begins_afresh(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.say("first")
        await c.say("/retry")
        await c.say("/retry")
        await c.answered()
        assert c.harness.rewinds == [None, None]
        assert c.harness.asked == ["first"] * 3


async def test_retry_works_after_each_ending(tmp_path: Path) -> None:
    async with core(tmp_path, seconds=100) as c:
        for text, kind in (
            ("refused", FailureKind.CONTENT_FILTER),
            ("down", FailureKind.UNAVAILABLE),
            ("stopped", None),
        ):
            if kind is None:
                c.harness.hold(text)
            else:
                c.harness.tells(text, failing(kind))
            await c.say(text)
            await c.say("/stop")
            await c.answered()
            c.harness.scripts.clear()
            await c.say("/retry")
            await c.answered()
            assert c.texts()[-1] == f"echo: {text}"


async def test_what_was_dropped_is_not_the_last_exchange_and_order_is_that_of_the_answers(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("first")
        second = c.harness.hold("second")
        for text in ("first", "second", "third", "fourth"):
            await c.say(text)
        await c.clock.advance(2)
        await press(c, bubble(c, 3), EN.button_drop)
        third = c.harness.hold("third")
        await press(c, bubble(c, 2), EN.button_run_now)
        await c.clock.advance(1)
        third.set()
        await c.clock.advance(1)
        second.set()
        await c.answered()
        assert c.harness.asked == ["first", "third", "second"]
        await c.say("/retry")
        await c.answered()
        assert c.harness.asked[-1] == "second"


async def test_retry_says_why_not(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        assert await asked(c, "/retry") == EN.retry_nothing
        gate = c.harness.hold("first")
        await c.say("first", BOB, "g")
        assert await asked(c, "/retry", BOB, "g") == EN.retry_busy
        gate.set()
        await c.answered()
        c.policy = replace(c.policy, access=replace(c.policy.access, allow=c.policy.access.admins, admins=frozenset()))
        assert await asked(c, "/retry", ANN, "g") == EN.retry_not_yours
        c.harness.lost = True
        assert await asked(c, "/retry", BOB, "g") == EN.retry_lost
        await c.say("mine")
        await c.say("/new")
        assert await asked(c, "/retry") == EN.retry_nothing


async def test_an_admin_retries_for_another_who_stays_the_speaker(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.say("bobs", BOB, "g")
        await c.say("/retry", ANN, "g")
        await c.answered()
        assert [start.ctx.speaker.id for start in c.harness.starts] == ["memory:2", "memory:2"]


async def test_a_failed_answer_has_a_button_that_tries_again(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.tells("q", lambda tell: tell.failed(FailureKind.UNAVAILABLE))
        await c.say("q")
        await c.answered()
        failed = bubble(c, 0)
        sentence = failed.text
        await c.restart()
        c.harness.scripts.clear()
        data = failed.part.buttons[0][0].data
        assert await press(c, failed, EN.button_retry) == EN.pressed["retry"]
        await c.answered()
        assert c.texts() == [sentence, "echo: q"]
        assert failed.part.buttons == ()
        await c.press(failed.message_id, data)
        assert c.channel.acknowledged[-1][1] == EN.retry_not_newest
        assert c.harness.asked == ["q", "q"]


async def test_a_button_that_is_too_late_to_try_again_goes_when_it_is_pressed(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.tells("q", lambda tell: tell.failed(FailureKind.UNAVAILABLE))
        await c.say("q")
        await c.answered()
        await c.say("something else")
        await c.answered()
        failed = bubble(c, 0)
        assert await press(c, failed, EN.button_retry) == EN.retry_not_newest
        await c.answered()
        assert failed.part.buttons == ()
        assert c.harness.asked == ["q", "something else"]


@pytest.mark.parametrize("ending", ["stop", "success"])
async def test_other_answers_have_no_such_button(tmp_path: Path, ending: str) -> None:
    async with core(tmp_path) as c:
        if ending == "stop":
            c.harness.hold("q")
        await c.say("q")
        await c.say("/stop")
        await c.answered()
        assert not any(shown.part.buttons for shown in c.channel.chats[ANN])


@pytest.mark.parametrize("step", range(1, 9))
async def test_a_retry_survives_a_crash_at_any_step(tmp_path: Path, step: int) -> None:
    async with core(tmp_path) as c:
        await c.say("q")
        await c.answered()
        c.tripwire.at = c.tripwire.passed + step
        message = c.message("/retry")
        receiving = asyncio.ensure_future(c.channel.receive(message))
        await c.clock.advance(3)
        receiving.cancel()
        await c.crash()
        c.tripwire = Tripwire()
        await c.start()
        await c.receive(message)
        await c.answered()
        assert c.texts() == ["echo: q", "echo: q"]
        assert set(c.harness.rewinds) == {None}
        known = await c.store.read(lambda tx: runs.recent(tx, f"memory:{ANN}", 9))
        assert [row.state for row in known] == [RunState.SUCCESS] * 2
        assert [row.inbox_ids for row in known] == [(2,), (1,)]


async def test_the_menu_names_both(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        text = await asked(c, "/help")
        assert "/queue" in text
        assert "/retry" in text
