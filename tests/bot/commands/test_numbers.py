"""Where a platform has no buttons the options are a numbered list, and a number is the answer of who may give it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bot.delivery.buttons import as_shown, typed_number
from bot.store import inbox
from bot.store.rows import InboxState
from bot.texts.en import EN
from channels.capabilities import TextUnit
from channels.errors import Rejected
from channels.message import Attachment, Button, OutboundMessage
from channels.text.parse import parse
from harness.events import FailureKind
from tests.bot.commands.test_waiting import failing
from tests.bot.core import ANN, BOB, RULES, Core, core
from tests.memory_channel import FULL, NO_BUTTONS, MemoryMode

if TYPE_CHECKING:
    from pathlib import Path

STREAMS = MemoryMode(edits=False, append_only=True, idempotent=False, findable=False, buttons=False)


async def say(c: Core, text: str, person: str = ANN, chat: str | None = None) -> None:
    """Each at a time of its own, as on a platform: what was shown later stands lower."""
    await c.say(text, person, chat)
    await c.clock.advance(2)


async def untouched(c: Core) -> list[str]:
    """The texts of the stored events that nobody has dealt with."""
    rows = await c.store.read(lambda tx: inbox.load(tx, range(1000)))
    return [row.event for row in rows if row.state is InboxState.NEW]


# What is shown.


def test_the_options_stand_below_the_text_and_the_status() -> None:
    rows = ((Button(label="Run_now*", data="p:0"), Button(label="Drop", data="p:1")), (Button(label="●", data="p:2"),))
    message = OutboundMessage(text="**Text**", status="Queued, *next*", buttons=rows)
    shown = as_shown(message, NO_BUTTONS.capabilities)
    assert shown.text == "**Text**\n\nQueued, \\*next\\*\n\n1. Run\\_now\\*\n2. Drop\n3. ●"
    assert (shown.status, shown.buttons) == ("", ())
    assert as_shown(OutboundMessage(status="s", buttons=rows), NO_BUTTONS.capabilities).text.startswith("s\n\n1. ")
    assert as_shown(message, FULL.capabilities) is message
    assert as_shown(OutboundMessage(text="x", status="y"), NO_BUTTONS.capabilities).status == "y"
    assert NO_BUTTONS.capabilities.text_unit is TextUnit.CHARACTERS
    assert len(parse(shown.text)) == 3


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        (" 12\n", 12),
        ("0", None),
        ("1.", None),
        ("1 2", None),
        ("-1", None),
        ("١", None),
        ("\uff11\uff12", 12),
    ],
)
def test_only_a_bare_number_counts(text: str, number: int | None) -> None:
    assert typed_number(text) == number


# What it answers.


async def test_a_model_is_chosen_by_its_number(tmp_path: Path) -> None:
    async with core(tmp_path, mode=NO_BUTTONS) as c:
        await say(c, "/models")
        assert c.texts()[-1].endswith("1. ● main\n2. other")
        await say(c, "2")
        assert c.texts() == [c.texts()[0], "This conversation now uses other."]
        assert c.texts()[0].endswith("\n\n☑ other")
        await say(c, "hello")
        await say(c, "1")
        await c.answered()
        assert [(start.run_input.text, start.ctx.model) for start in c.harness.starts] == [
            ("hello", "other"),
            ("1", "other"),  # below what the agent said it is meant for the agent
        ]
        assert await untouched(c) == []


async def test_what_waits_is_put_first_and_dropped_by_number(tmp_path: Path) -> None:
    async with core(tmp_path, mode=NO_BUTTONS) as c:
        gate = c.harness.hold("first")
        for text in ("first", "second", "third"):
            await say(c, text)
        assert c.texts()[2] == "Queued, 2nd in line\n\n1. Run now\n2. Drop"
        await say(c, "2")  # of the newest question: the third message's
        assert c.texts()[2] == EN.dropped_by["author"]
        assert c.texts()[3] == EN.pressed["drop"]
        await say(c, "1")  # the second message's is the newest now
        await c.answered()
        assert c.harness.asked == ["first", "second"]
        assert c.texts()[4] == EN.pressed["now"]
        gate.set()
        await say(c, "1")
        await c.answered()
        assert c.harness.asked[-1] == "1"


async def test_the_list_of_what_waits_takes_numbers_too(tmp_path: Path) -> None:
    async with core(tmp_path, mode=NO_BUTTONS) as c:
        gate = c.harness.hold("first")
        for text in ("first", "second", "third", "/queue"):
            await say(c, text)
        assert c.texts()[-1].endswith("1. 1 · Run now\n2. 1 · Drop\n3. 2 · Run now\n4. 2 · Drop")
        await say(c, "4")
        assert c.texts()[3].endswith("1. 1 · Run now\n2. 1 · Drop")
        await say(c, "4")  # there is no such option any more: a message, which waits
        gate.set()
        await c.answered()
        assert c.harness.asked == ["first", "second", "4"]


async def test_a_failed_answer_is_tried_again_by_its_number_after_a_restart(tmp_path: Path) -> None:
    async with core(tmp_path, mode=NO_BUTTONS) as c:
        c.harness.tells("q", failing(FailureKind.UNAVAILABLE))
        await say(c, "q")
        await c.answered()
        sentence = c.texts()[0].removesuffix("\n\n1. Try again")
        assert c.texts() == [f"{sentence}\n\n1. Try again"]
        await c.restart()
        c.harness.scripts.clear()
        await say(c, "1")
        await c.answered()
        assert c.harness.asked == ["q", "q"]
        assert (c.texts()[0], "echo: q" in c.texts()) == (sentence, True)
        assert await untouched(c) == []


async def test_what_waits_is_answered_by_number_after_a_restart(tmp_path: Path) -> None:
    async with core(tmp_path, mode=NO_BUTTONS) as c:
        c.harness.hold("first")
        await say(c, "first")
        await say(c, "second")
        await c.restart()
        await c.clock.advance(2)
        await say(c, "2")
        assert EN.dropped_by["author"] in c.texts()


async def test_an_old_question_takes_no_numbers(tmp_path: Path) -> None:
    async with core(tmp_path, mode=NO_BUTTONS) as c:
        await say(c, "/models")
        await c.clock.advance(86_401)
        await say(c, "2")
        await c.answered()
        assert c.harness.asked == ["2"]


async def test_in_a_group_only_who_may_press_answers(tmp_path: Path) -> None:
    async with core(tmp_path, mode=NO_BUTTONS) as c:
        await say(c, "/models", ANN, "g")
        await say(c, "2", BOB, "g")  # no administrator there: said to the agent, below whose answer nothing is asked
        await c.answered()
        assert (c.harness.asked, c.harness.starts[0].ctx.model) == (["2"], "main")
        await say(c, "/models", ANN, "g")
        await say(c, "2", ANN, "g")
        await say(c, "hello", BOB, "g")
        await c.answered()
        assert c.harness.starts[-1].ctx.model == "other"


async def test_what_another_has_waiting_is_not_mine_to_answer(tmp_path: Path) -> None:
    async with core(tmp_path, mode=NO_BUTTONS) as c:
        gate = c.harness.hold("first")
        await say(c, "first", ANN, "g")
        await say(c, "bobs", BOB, "g")
        await say(c, "anns", ANN, "g")
        await say(c, "2", BOB, "g")  # the newest that is Bob's
        assert c.texts("g")[1] == EN.dropped_by["author"]
        assert not c.texts("g")[2].startswith(EN.dropped_by["author"])
        gate.set()
        await c.answered()
        assert c.harness.asked == ["first", "anns"]


async def test_the_question_of_a_group_is_answered_by_the_admin_who_asked(tmp_path: Path) -> None:
    async with core(tmp_path, mode=NO_BUTTONS) as c:
        await say(c, "/allow", ANN, "h")
        assert c.texts("h")[0].endswith(f"1. {EN.group_allow}\n2. {EN.group_cancel}")
        await say(c, "1", BOB, "h")
        assert not c.editor.book.policy("memory").access.is_open("memory:h")
        await say(c, "3", ANN, "h")
        await say(c, "1", ANN, "h")
        assert c.editor.book.policy("memory").access.is_open("memory:h")
        assert c.texts("h")[0] == EN.group_opened["any"]
        await c.answered()
        assert c.harness.asked == []
        assert await untouched(c) == []


async def test_a_number_with_a_file_or_elsewhere_or_beyond_the_list_is_a_message(tmp_path: Path) -> None:
    async with core(tmp_path, mode=NO_BUTTONS) as c:
        await say(c, "/models")
        await c.say("1", attachments=(Attachment(ref="gone", kind="file"),))
        await c.answered()
        await say(c, "1", BOB)
        await say(c, "3")
        await c.answered()
        assert c.harness.asked == ["1", "1", "3"]


async def test_where_there_are_buttons_a_number_is_a_message(tmp_path: Path) -> None:
    async with core(tmp_path, mode=FULL) as c:
        await say(c, "/models")
        await say(c, "1")
        await c.answered()
        assert c.harness.asked == ["1"]


async def test_buttons_that_the_platform_refused_are_answered_by_number(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.channel.fail("send", Rejected("no cards here"))
        await say(c, "/models")
        assert c.texts()[-1].endswith(f"1. ● main\n2. other\n\n{EN.platform_refused['buttons']}")
        await say(c, "2")
        assert c.texts()[-1] == "This conversation now uses other."
        await say(c, "hello")
        await say(c, "1")
        await c.answered()
        assert [start.run_input.text for start in c.harness.starts] == ["hello", "1"]
        assert await untouched(c) == []


async def test_where_nothing_can_be_edited_the_list_comes_anew(tmp_path: Path) -> None:
    async with core(tmp_path, mode=STREAMS) as c:
        c.harness.tells("q", failing(FailureKind.UNAVAILABLE))
        await say(c, "q")
        await c.answered()
        assert c.texts()[0].endswith("\n\n1. Try again")
        c.harness.scripts.clear()
        await say(c, "1")
        await c.answered()
        assert "echo: q" in c.texts()
        await say(c, "/models")
        await say(c, "2")
        assert any(text.endswith("\n\n☑ other") for text in c.texts())


async def test_order_is_kept_with_messages_around_it(tmp_path: Path) -> None:
    async with core(tmp_path, RULES, mode=NO_BUTTONS) as c:
        await say(c, "/models")
        await c.receive(c.message("2"), c.message("after"))
        await c.answered()
        assert c.harness.starts[0].ctx.model == "other"
