"""What calls people: words worth it, and at its end what they wait for; nothing else, and nothing twice."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bot.delivery.plan import tells, worth_a_call
from bot.delivery.reply import FIRST_MESSAGE, STATUS_AFTER
from bot.store import outbox, runs
from channels.errors import OutcomeUnknown, Rejected, Temporary
from channels.message import Button, OutboundFile, OutboundMessage
from tests.bot.store.samples import run_row
from tests.delivery_world import ProbedChannel, World, dm, group, world
from tests.memory_channel import CALLS

if TYPE_CHECKING:
    from pathlib import Path

BUTTONS = ((Button(label="Yes", data="p:0"), Button(label="No", data="p:1")),)
SENTENCE = "The total is 4,318.20 EUR."
LONG = "".join(f"line {number}\n" for number in range(30))


def shown(w: World, chat: str = "1") -> list[tuple[str, bool]]:
    """The messages of a chat, and whether each called people."""
    return [(bubble.text, not bubble.silent) for bubble in w.channel.chats.get(chat, [])]


@pytest.mark.parametrize(
    ("text", "is_told", "is_worth"),
    [
        ("", False, False),
        ("I", False, False),
        ("Hello!", False, False),
        ("**Hello**", False, False),
        ("The total", True, False),
        ("The total is 4.3", True, False),
        ("The total is Eve. It", True, True),
        ("Shall I book it?", True, True),
        ("# The list\n", True, True),
        ("thirty characters are worth it", True, True),
        ("x" * 40, False, False),
        ("好", False, False),
        ("总额是四千", True, False),
        ("总额是四千。", True, True),
    ],
)
def test_how_much_of_a_text_is_worth_a_notification(text: str, is_told: bool, is_worth: bool) -> None:
    assert (tells(text), worth_a_call(text)) == (is_told, is_worth)


@pytest.mark.parametrize("address", [dm(), group("1")], ids=["dm", "group"])
async def test_the_first_message_holds_a_sentence_and_comes_with_it(tmp_path: Path, address: object) -> None:
    async with world(tmp_path, CALLS) as w:
        reply = await w.delivery.open("r1", group("1") if address == group("1") else dm(), "q1")
        reply.show(OutboundMessage())
        await w.clock.advance(1)
        assert w.texts == []
        for end in range(1, len(SENTENCE) + 1):
            reply.show(OutboundMessage(text=SENTENCE[:end]))
            await w.clock.advance(0.01)
        reply.show(OutboundMessage(text=SENTENCE + " I"))
        await w.clock.settle()
        assert shown(w) == [(SENTENCE + " I", True)]
        assert len(w.calls("send", "edit")) == 1


async def test_few_words_wait_for_more_but_not_for_long_and_one_word_does(tmp_path: Path) -> None:
    async with world(tmp_path, CALLS) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="The"))
        await w.clock.advance(STATUS_AFTER + 1)
        assert w.texts == []
        reply.show(OutboundMessage(text="The total"))
        await w.clock.settle()
        assert shown(w) == [("The total", True)]
        other = await w.delivery.open("r2", dm("2"), None)
        other.show(OutboundMessage(text="The total"))
        await w.clock.advance(FIRST_MESSAGE - 0.01)
        assert shown(w, "2") == []
        await w.clock.advance(0.02)
        assert shown(w, "2") == [("The total", True)]


async def test_a_status_comes_late_and_silently_and_the_answer_takes_its_place_aloud(tmp_path: Path) -> None:
    async with world(tmp_path, CALLS) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.at_work = "Working"
        reply.show(OutboundMessage(status="reading sales.csv"))
        await w.clock.advance(STATUS_AFTER - 0.1)
        assert w.texts == []
        await w.clock.advance(0.2)
        assert shown(w) == [("reading sales.csv", False)]
        reply.show(OutboundMessage())
        await w.clock.advance(2)
        assert shown(w) == [("Working", False)], "a status that is over is not left there"
        reply.show(OutboundMessage(text="The total is"))
        await w.clock.advance(2)
        assert shown(w) == [("The total is", False)]
        await w.say(SENTENCE)
        await w.drained()
        assert shown(w) == [(SENTENCE, True)]
        assert len(w.calls("delete")) == 1
        assert [row.message_id for row in await w.store.read(lambda tx: outbox.load(tx, "r1"))] == [None, "m2"]


async def test_words_that_come_before_the_status_is_due_are_the_first_message(tmp_path: Path) -> None:
    async with world(tmp_path, CALLS) as w:
        reply = await w.delivery.open("r1", group("1"), None)
        reply.show(OutboundMessage(status="reading sales.csv"))
        await w.clock.advance(2)
        reply.show(OutboundMessage(text=SENTENCE + " It"))
        await w.clock.settle()
        assert shown(w) == [(SENTENCE + " It", True)]


async def test_an_answer_that_was_just_noticed_ends_as_an_edit(tmp_path: Path) -> None:
    async with world(tmp_path, CALLS) as w:
        await begun(w)
        await w.clock.advance(29)
        await w.say(SENTENCE + " I saved the list.")
        await w.drained()
        (bubble,) = w.channel.chats["1"]
        assert list(bubble.history) == [SENTENCE + " I", SENTENCE + " I saved the list."]


@pytest.mark.parametrize(("notify_after", "calls"), [(30.0, 2), (60.0, 1), (None, 1)])
async def test_an_answer_that_grew_for_long_ends_in_a_new_message(
    tmp_path: Path, notify_after: float | None, calls: int
) -> None:
    async with world(tmp_path, replace(CALLS, notify_after=notify_after)) as w:
        await begun(w)
        await w.clock.advance(31)
        await w.say(SENTENCE + " I saved the list.")
        await w.drained()
        assert shown(w) == [(SENTENCE + " I saved the list.", True)]
        assert len(w.calls("send")) == calls


async def begun(w: World) -> None:
    """An answer whose first message has called people."""
    reply = await w.delivery.open("r1", dm(), None)
    reply.show(OutboundMessage(text=SENTENCE + " I"))
    await w.clock.settle()
    assert shown(w) == [(SENTENCE + " I", True)]


async def test_of_a_long_answer_one_message_calls_at_the_beginning_and_one_at_the_end(tmp_path: Path) -> None:
    async with world(tmp_path, replace(CALLS, max_unit=60)) as w:
        reply = await w.delivery.open("r1", dm(), None)
        for end in range(10, 181, 10):
            reply.show(OutboundMessage(text=LONG[:end]))
            await w.clock.advance(3)
        before = w.channel.chats["1"][:]
        assert [calls for _, calls in shown(w)] == [True, *[False] * (len(before) - 1)]
        assert len(before) > 2
        files = (OutboundFile(path=tmp_path / "a", name="a.csv"),)
        await w.say(LONG, files=files)
        await w.drained()
        assert "".join(w.texts) == LONG + "a.csv"
        kept = before[:-1]
        assert w.channel.chats["1"][: len(kept)] == kept, "what stands above the last message is left alone"
        after = [calls for _, calls in shown(w)][len(kept) :]
        assert after == [True, *[False] * (len(after) - 1)]
        assert len(after) > 2
        assert len(w.calls("delete")) == 1


async def test_a_final_without_drafts_calls_once(tmp_path: Path) -> None:
    async with world(tmp_path, replace(CALLS, max_unit=60)) as w:
        await w.say(LONG)
        await w.drained()
        assert "".join(w.texts) == LONG
        assert [calls for _, calls in shown(w)] == [True, *[False] * (len(w.texts) - 1)]


async def test_a_question_at_the_end_is_a_message_of_its_own(tmp_path: Path) -> None:
    async with world(tmp_path, CALLS) as w:
        await begun(w)
        await w.say("Which of them?", buttons=BUTTONS)
        await w.drained()
        assert shown(w) == [("Which of them?", True)]
        assert len(w.calls("send")) == 2
        await w.say("Which of them?\n\nYes")
        await w.drained()
        assert shown(w) == [("Which of them?\n\nYes", True)]
        assert len(w.calls("send")) == 2, "its choice is shown in it"


async def test_a_queued_notice_is_silent_and_gives_way_to_the_answer_with_its_quote(tmp_path: Path) -> None:
    async with world(tmp_path, CALLS) as w:
        reply = await w.delivery.open("r1", group("1"), "q1")
        reply.show(OutboundMessage(status="Queued", buttons=BUTTONS))
        await w.clock.settle()
        assert shown(w) == [("Queued", False)]
        reply.show(OutboundMessage())
        message = OutboundMessage(text=SENTENCE, final=True)
        await w.delivery.say("r1", group("1"), "q1", message)
        await w.drained()
        (bubble,) = w.channel.chats["1"]
        assert (bubble.text, bubble.silent, bubble.reply_to) == (SENTENCE, False, "q1")


async def test_a_notice_is_silent_also_where_the_answer_begins_before_it_is_sent(tmp_path: Path) -> None:
    async with world(tmp_path, CALLS) as w:
        reply = await w.delivery.open("r1", dm(), None)
        w.store.writing.clear()
        reply.show(OutboundMessage(status="Queued", buttons=BUTTONS))
        await w.store.writing.wait()
        reply.show(OutboundMessage(text=SENTENCE))
        await w.say(SENTENCE)
        await w.drained()
        assert shown(w) == [(SENTENCE, True)]
        assert len(w.calls("send")) == 2


async def test_what_was_dropped_while_it_waited_says_so_in_its_notice(tmp_path: Path) -> None:
    async with world(tmp_path, CALLS) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(status="Queued", buttons=BUTTONS))
        await w.clock.settle()
        await w.say("Dropped.")
        await w.drained()
        assert shown(w) == [("Dropped.", False)]
        assert len(w.calls("send")) == 1


async def test_a_resumed_answer_calls_at_its_end(tmp_path: Path) -> None:
    async with world(tmp_path, CALLS) as w:
        await begun(w)
        await w.restart()
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text=SENTENCE + " I saved"))
        await w.clock.advance(2)
        assert w.texts == [SENTENCE + " I saved"]
        await w.say(SENTENCE + " I saved the list.")
        await w.drained()
        assert shown(w) == [(SENTENCE + " I saved the list.", True)]
        assert len(w.calls("send")) == 2


async def test_where_the_old_message_may_not_go_the_answer_still_calls(tmp_path: Path) -> None:
    async with world(tmp_path, CALLS) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(status="reading sales.csv"))
        await w.clock.advance(3)
        w.channel.fail("delete", *[Rejected("too old")] * 20)
        await w.say(SENTENCE)
        await w.drained()
        assert shown(w) == [("reading sales.csv", False), (SENTENCE, True)]
        assert await w.store.read(outbox.undelivered) == []


async def test_a_change_after_the_end_changes_the_message_that_called(tmp_path: Path) -> None:
    async with world(tmp_path, CALLS) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(status="reading sales.csv"))
        await w.clock.advance(3)
        await w.say(SENTENCE)
        await w.drained()
        await w.restart()
        await w.say(SENTENCE + " Chosen.")
        await w.drained()
        assert shown(w) == [(SENTENCE + " Chosen.", True)]
        assert len(w.calls("send")) == 2


async def asked(w: World, number: int) -> str:
    """A message of the chat begins a run; returns the key of its reply."""
    key = f"r{number}"
    run = replace(run_row(conversation="memory:1", address=dm()), run_id=key, reply_key=key, created_at=w.clock.now())
    await w.store.write(lambda tx: runs.open(tx, run))
    return key


QUIET = replace(CALLS, max_unit=60)
WORDS = [f"{number}. page of the answer that had to wait".ljust(59, ".") + "\n" for number in range(3)]
WAITED = "".join(WORDS)


@pytest.mark.parametrize("pages", [1, 2, 3])
@pytest.mark.parametrize("killed", [False, True])
async def test_a_long_answer_that_began_in_its_notice_stands_whole_below_the_one_before_it(
    tmp_path: Path, pages: int, killed: bool
) -> None:
    """pages: of it that stand when the final comes."""
    async with world(tmp_path, QUIET) as w:
        first, second, third = [await asked(w, number) for number in range(3)]
        working = await w.delivery.open(first, dm(), None)
        working.show(OutboundMessage(status="reading sales.csv"))
        await w.clock.advance(STATUS_AFTER + 1)
        for key in (second, third):
            notice = await w.delivery.open(key, dm(), None)
            notice.show(OutboundMessage(status="Queued", buttons=BUTTONS))
        await w.clock.advance(3)
        await w.say(SENTENCE, key=first)
        await w.drained()
        assert shown(w) == [("Queued", False), ("Queued", False), (SENTENCE, True)]
        growing = await w.delivery.open(second, dm(), None)
        growing.show(OutboundMessage(text="".join(WORDS[:pages])))
        await w.clock.advance(9)
        assert w.texts[0] == WORDS[0]
        if killed:
            await w.restart()
        await w.say(WAITED, key=second)
        await w.drained()
        assert shown(w) == [
            ("Queued", False),
            (SENTENCE, True),
            (WORDS[0], True),
            *((page, False) for page in WORDS[1:]),
        ]


async def test_a_long_answer_with_only_later_messages_below_it_stays_but_for_its_last_one(tmp_path: Path) -> None:
    async with world(tmp_path, QUIET) as w:
        first, second = [await asked(w, number) for number in range(2)]
        growing = await w.delivery.open(first, dm(), None)
        growing.show(OutboundMessage(text=WAITED))
        await w.clock.advance(9)
        stands = w.channel.chats["1"][:2]
        await w.say("Dropped.", key=second)
        await w.clock.advance(40)
        await w.say(WAITED, key=first)
        await w.drained()
        assert w.channel.chats["1"][:2] == stands
        assert w.texts == [*WORDS[:2], "Dropped.", WORDS[2]]


async def test_words_before_a_request_stand_above_it_and_only_the_request_calls(tmp_path: Path) -> None:
    async with world(tmp_path, CALLS) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="I will book it."))
        await w.clock.settle()
        assert w.texts == []
        await w.clock.until(reply.hurry())
        await w.say("May I?", key="q1", buttons=BUTTONS)
        await w.drained()
        assert shown(w) == [("I will book it.", False), ("May I?", True)]
        await w.say("I will book it.\n\nDone.")
        await w.drained()
        assert shown(w) == [("May I?", True), ("I will book it.\n\nDone.", True)], "nobody was called to it yet"


@pytest.mark.parametrize("killed", [False, True])
async def test_an_answer_to_what_waited_rings_below_also_where_its_notice_was_lost(
    tmp_path: Path, killed: bool
) -> None:
    async with world(tmp_path, replace(QUIET, idempotent=False), platform=ProbedChannel) as w:
        first, second = [await asked(w, number) for number in range(2)]
        working = await w.delivery.open(first, dm(), w.channel.next_id())
        working.show(OutboundMessage(text=SENTENCE + " I"))
        await w.clock.settle()
        notice = await w.delivery.open(second, dm(), w.channel.next_id())
        w.channel.fail("send", OutcomeUnknown("reset"), applied=True)
        notice.show(OutboundMessage(status="Queued", buttons=BUTTONS))
        await w.clock.settle()
        assert w.texts == [SENTENCE + " I", "Queued"]
        if killed:
            await w.restart()
        else:
            await w.clock.advance(0.1)
        message = OutboundMessage(text=SENTENCE, final=True, buttons=BUTTONS)  # comes as a new message
        await w.delivery.say(first, dm(), None, message)
        begun = await w.delivery.open(second, dm(), None)
        begun.show(OutboundMessage())
        await w.delivery.say(second, dm(), None, OutboundMessage(text=WAITED, final=True))
        await w.drained()
        assert w.texts == [SENTENCE, *WORDS]
        assert [rings for _, rings in shown(w)] == [True, True, False, False]


async def test_answers_that_an_earlier_process_left_come_in_the_order_of_their_questions(tmp_path: Path) -> None:
    async with world(tmp_path, CALLS) as w:
        first, second = [await asked(w, number) for number in range(2)]
        w.channel.fail("send", *[Temporary("no route")] * 50)
        notice = await w.delivery.open(second, dm(), None)
        notice.show(OutboundMessage(status="Queued", buttons=BUTTONS))
        await w.clock.advance(3)
        await w.say("the first", key=first)
        await w.clock.advance(1)
        notice.show(OutboundMessage())
        await w.say("the second", key=second)
        await w.clock.advance(1)
        assert w.texts == []
        await w.restart()
        w.channel._faults.clear()
        await w.drained()
        assert w.texts == ["the first", "the second"]
