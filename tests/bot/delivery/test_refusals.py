"""How far a refusal reaches: one file, one message, one topic, one chat; and what people are told of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bot.delivery import Outcome
from bot.texts.en import EN
from bot.texts.markdown import plain
from bot.texts.zh import ZH
from channels.capabilities import Rate
from channels.errors import (
    ButtonsRefused,
    ChannelError,
    ChatGone,
    EditRefused,
    Fatal,
    MessageGone,
    NotAllowed,
    RateLimited,
    Rejected,
    Temporary,
    TopicClosed,
)
from channels.message import Button, OutboundFile, OutboundMessage
from tests.delivery_world import dm, group, world
from tests.memory_channel import APPEND_ONLY, FULL, NO_IDEMPOTENCY, SEARCHED, MemoryMode

if TYPE_CHECKING:
    from pathlib import Path

EDITING = [FULL, NO_IDEMPOTENCY, SEARCHED]
YES_NO = ((Button(label="Yes", data="p:0"), Button(label="No", data="p:1")),)
NUMBERED = "1. Yes\n2. No\n\n" + EN.platform_refused["buttons"]


def final(text: str, **more: object) -> OutboundMessage:
    return replace(OutboundMessage(text=text, final=True), **more)  # type: ignore[arg-type]


# The account


async def test_a_call_that_is_refused_as_if_nothing_could_be_sent_holds_up_the_others_for_a_second(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        w.channel.fail("send", Fatal("invalid_auth", "a new token"))
        await w.say("one", key="a")
        await w.clock.settle()
        assert [account.stopped for account in w.delivery.snapshot()] == ["a new token"]
        await w.say("two", key="b", chat="2")
        await w.clock.advance(2)
        assert w.channel.texts("2") == ["two"]
        assert [account.stopped for account in w.delivery.snapshot()] == [""]
        await w.clock.advance(15)
        assert w.texts == ["one"]


async def test_where_nothing_can_be_sent_one_call_is_tried_now_and_then_until_it_can(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.channel.fail("send", *[Fatal("401", "put a new token into the config")] * 60)
        for number in range(20):
            await w.say(f"answer {number}", key=f"r{number}", chat=f"{number}")
        await w.clock.advance(3600)
        (account,) = w.delivery.snapshot()
        assert account.stopped == "put a new token into the config"
        assert account.waiting_finals == 20
        assert account.oldest_wait == pytest.approx(3600, abs=1)
        calls = len(w.calls("send"))
        assert calls < 20, "ever rarer"
        await w.clock.advance(24 * 3600)
        assert len(w.calls("send")) >= 60, "never more than a quarter of an hour apart"
        assert [w.channel.texts(f"{number}") for number in range(20)] == [[f"answer {n}"] for n in range(20)]
        assert w.delivery.snapshot()[0].stopped == ""


@pytest.mark.parametrize("how", ["hello", "reconnect"])
async def test_a_new_connection_is_tried_at_once(tmp_path: Path, how: str) -> None:
    async with world(tmp_path) as w:
        w.channel.fail("send", *[Fatal("401", "a new token")] * 8)
        await w.say("one")
        await w.clock.advance(1000)
        assert w.texts == []
        w.channel.fail("send")  # nothing more than what is left of those
        left = 8 - len(w.calls("send"))
        for _ in range(left + 1):
            if how == "hello":
                w.delivery.rearm("memory")
            else:
                w.channel.health.reconnects += 1
            await w.clock.advance(5.1)
        assert w.texts == ["one"]


async def test_a_hello_soon_after_a_refusal_is_not_held_up_by_it(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.channel.fail("send", Fatal("401", "a new token"))
        await w.say("one")
        await w.clock.settle()
        w.delivery.rearm("memory")
        await w.clock.advance(0.5)
        assert w.texts == ["one"]


@pytest.mark.parametrize("how", ["hello", "reconnect"])
@pytest.mark.parametrize("error", [Fatal("401", "a new token"), Temporary("no route")], ids=["refused", "no route"])
@pytest.mark.parametrize("minutes", [0.2, 1, 10])
async def test_a_new_connection_after_an_outage_holds_back_no_chat(
    tmp_path: Path, error: ChannelError, minutes: float, how: str
) -> None:
    async with world(tmp_path) as w:
        for chat in "123":
            w.channel.fail("send", *[error] * 1000, chat=chat)
            w.channel.fail("typing", *[error] * 1000, chat=chat)
            await w.say("one", key=f"a{chat}", chat=chat)
            await w.clock.advance(1)
            await w.say("two", key=f"b{chat}", chat=chat)
        await w.clock.advance(60 * minutes)
        w.channel._faults.clear()
        if how == "hello":
            w.delivery.rearm("memory")
        else:
            w.channel.health.reconnects += 1
        await w.clock.advance(5 if how == "hello" else 10)
        shown = [w.channel.texts(chat) for chat in "123"]
        if how == "reconnect":  # noticed within some seconds; a later answer is not held back for longer than a minute
            shown = list(map(sorted, shown))
        assert shown == [["one", "two"]] * 3


async def test_a_hello_does_not_hurry_what_the_platform_asked_to_pause(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.channel.fail("send", RateLimited("slow down", 30.0), Temporary("no route"))
        await w.say("one")
        await w.clock.advance(1)
        w.delivery.rearm("memory")
        await w.clock.advance(28)
        assert len(w.calls("send")) == 1
        await w.drained()
        assert w.texts == ["one"]


async def test_a_call_that_was_under_way_at_a_hello_says_nothing_of_what_comes_after_it(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.channel.fail("send", *[Fatal("401", "a new token")] * 8)
        await w.say("one")
        await w.clock.advance(1000)
        assert len(w.calls("send")) == 7
        gate = w.channel.hold("send")
        w.delivery.rearm("memory")
        await w.clock.advance(1)
        assert len(w.calls("send")) == 8
        w.delivery.rearm("memory")
        gate.set()
        await w.clock.advance(3)
        assert w.texts == ["one"]


async def test_what_alone_is_refused_as_if_nothing_could_be_sent_counts_as_refused(tmp_path: Path) -> None:
    async with world(tmp_path, SEARCHED) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="Hel"))
        await w.clock.settle()
        w.channel.fail("edit", *[Fatal("invalid_auth", "a new token")] * 50)
        await w.say("Hello")
        for number in range(100):
            await w.say(f"other {number}", key=f"o{number}", chat="2")
            await w.clock.advance(5)
        assert reply.outcome is Outcome.DELIVERED
        assert w.texts == ["Hello"], "as a message of its own"
        assert len(w.channel.texts("2")) == 100


# One file


@pytest.mark.parametrize("error", [NotAllowed("no scope", "add files:write"), ChatGone("no rights"), TopicClosed("no")])
async def test_a_file_that_may_not_be_sent_is_left_out_and_nothing_else(
    tmp_path: Path, error: ChannelError, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(tmp_path) as w:
        files = (OutboundFile(path=tmp_path / "f", name="f.bin", instead="f.bin was not sent"),)
        for number in range(3):
            draft = await w.delivery.open(f"r{number}", dm(), None)
            draft.show(OutboundMessage(text="Wor"))
            await w.clock.advance(3)
            w.channel.fail("send", error)
            await w.say(f"Word {number}", f"r{number}", files=files)
            await w.drained()
        assert w.texts == [line for n in range(3) for line in (f"Word {n}", "f.bin was not sent")]
        assert caplog.text.count("add files:write") == isinstance(error, NotAllowed)


# One topic


async def test_a_closed_topic_ends_its_own_answers_only_and_the_chat_is_told(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        closed, other = replace(group(), topic="7"), replace(group(), topic="8")
        gate = w.channel.hold("send")
        w.channel.fail("send", TopicClosed("TOPIC_CLOSED"))
        given_up = [await w.delivery.say(f"c{n}", closed, None, final(f"closed {n}")) for n in range(3)]
        kept = [await w.delivery.say(f"o{n}", other, None, final(f"open {n}")) for n in range(3)]
        gate.set()
        await w.drained()
        assert {reply.outcome for reply in given_up} == {Outcome.ABANDONED}
        assert {reply.outcome for reply in kept} == {Outcome.DELIVERED}
        assert sorted(w.channel.texts("g")) == sorted(["open 0", "open 1", "open 2", EN.platform_refused["topic"]])
        w.channel.fail("send", TopicClosed("TOPIC_CLOSED"))
        await w.delivery.say("c9", closed, None, final("again"))
        await w.drained()
        assert w.channel.texts("g").count(EN.platform_refused["topic"]) == 1, "once a day"


async def test_what_cannot_be_tidied_up_does_not_end_the_chat(tmp_path: Path) -> None:
    async with world(tmp_path, MemoryMode(max_unit=10)) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="0123456789" * 2))
        await w.clock.advance(5)
        w.channel.fail("delete", *[ChatGone("no rights to delete")] * 5)
        await w.say("short")
        await w.say("next", "r2")
        await w.drained()
        assert w.texts == ["short", "0123456789", "next"]
        assert reply.outcome is Outcome.DELIVERED


# One message


@pytest.mark.parametrize("mode", EDITING)
@pytest.mark.parametrize(
    "error",
    [
        EditRefused("edit_window_closed"),
        NotAllowed("no scope", "add it"),
        Rejected("no"),
        TopicClosed("CHAT_WRITE_FORBIDDEN"),
        ChatGone("not_in_channel"),
    ],
)
async def test_an_answer_whose_draft_cannot_be_edited_is_a_message_of_its_own(
    tmp_path: Path, mode: MemoryMode, error: ChannelError
) -> None:
    async with world(tmp_path, mode) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="*Hel"))
        await w.clock.settle()
        w.channel.fail("edit", *[error] * 20)
        await w.say("*Hello*")
        await w.say("next", "r2")
        await w.drained()
        assert w.texts == ["*Hello*", "next"], "and the draft is gone"
        assert reply.outcome in (Outcome.DELIVERED, Outcome.PLAIN)


@pytest.mark.parametrize("mode", EDITING)
@pytest.mark.parametrize("error", [EditRefused("edit_window_closed"), MessageGone("message_not_found")])
async def test_drafts_that_cannot_be_edited_are_at_most_two_messages(
    tmp_path: Path, mode: MemoryMode, error: ChannelError
) -> None:
    async with world(tmp_path, mode) as w:
        w.channel.fail("edit", *[error] * 200)
        reply = await w.delivery.open("r1", dm(), None)
        for number in range(60):
            reply.show(OutboundMessage(text="word " * (number + 1)))
            await w.clock.advance(2)
        assert len(w.calls("send")) <= 2
        await w.say("all of it")
        await w.drained()
        assert len(w.calls("send")) <= 4
        assert [text for text in w.texts if text == "all of it"] == ["all of it"]
        assert w.texts[-1] == "all of it"
        w.channel._faults.clear()
        other = await w.delivery.open("r2", dm(), None)
        for text in ("a", "ab", "abc"):
            other.show(OutboundMessage(text=text))
            await w.clock.advance(2)
        assert w.texts[-1] == "abc", "later messages of the chat grow as ever"


async def test_one_refused_edit_costs_one_message_and_the_answer_grows_on(tmp_path: Path) -> None:
    async with world(tmp_path, SEARCHED) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="Hel"))
        await w.clock.advance(2)
        w.channel.fail("edit", EditRefused("too old"))
        for text in ("Hello", "Hello, wor", "Hello, world"):
            reply.show(OutboundMessage(text=text))
            await w.clock.advance(2)
        assert w.texts == ["Hel", "Hello, world"]
        await w.say("Hello, world!")
        await w.drained()
        assert w.texts == ["Hello, world!"]
        assert reply.outcome is Outcome.DELIVERED


async def test_of_a_long_answer_all_that_stands_below_goes_below_again(tmp_path: Path) -> None:
    async with world(tmp_path, MemoryMode(max_unit=5, idempotent=False)) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="aaaaabbbbbcc"))
        await w.clock.advance(5)
        assert w.texts == ["aaaaa", "bbbbb", "cc"]
        w.channel.fail("edit", EditRefused("too old"))
        await w.say("aaaaaBBBBBCC")
        await w.drained()
        assert w.texts == ["aaaaa", "BBBBB", "CC"]


@pytest.mark.parametrize("mode", [FULL, APPEND_ONLY, SEARCHED])
@pytest.mark.parametrize(("text", "sentence"), [("Hello", EN), ("你好", ZH)], ids=["en", "zh"])
async def test_an_answer_that_is_refused_for_good_ends_in_a_sentence(
    tmp_path: Path, mode: MemoryMode, text: str, sentence: object
) -> None:
    async with world(tmp_path, mode) as w:
        w.channel.fail("send", *[Rejected("the audit failed")] * 2)
        reply = await w.delivery.say("r1", dm(), None, final(text))
        await w.drained()
        assert w.texts == [(EN if sentence is EN else ZH).platform_refused["answer"]]
        assert reply.outcome is Outcome.REFUSED


async def test_the_sentence_takes_the_place_of_the_draft(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(status="Working"))
        await w.clock.settle()
        refusal = Rejected("the audit failed")
        w.channel.fail("edit", refusal, refusal)
        w.channel.fail("send", refusal, refusal)
        await w.say("Hello")
        await w.drained()
        assert w.texts == [EN.platform_refused["answer"]]
        assert reply.outcome is Outcome.REFUSED


async def test_of_a_long_answer_only_the_refused_part_is_missing(tmp_path: Path) -> None:
    first, second, third = "a" * 200, "b" * 200, "c"
    async with world(tmp_path, MemoryMode(max_unit=200, append_only=True, edits=False, idempotent=False)) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text=first + second))
        await w.clock.advance(2)
        w.channel.fail("send", Rejected("the audit failed"))
        await w.say(first + second + third)
        await w.drained()
        assert w.texts == [first, third, EN.platform_refused["part"]]
        assert reply.outcome is Outcome.REFUSED


async def test_what_is_tried_without_formatting_opens_no_reply_field(tmp_path: Path) -> None:
    """Where the platform takes no such message, its words still come."""
    async with world(tmp_path) as w:
        w.channel.fail("send", Rejected("inline keyboard expected"))
        reply = await w.delivery.say("r1", dm(), None, final("Why?", asks_reply=True))
        await w.drained()
        assert w.texts == [plain("Why?")]
        assert reply.wanted is not None
        assert not reply.wanted.asks_reply


async def test_without_formatting_a_stream_that_never_began_says_it_once(tmp_path: Path) -> None:
    async with world(tmp_path, APPEND_ONLY) as w:
        w.channel.fail("send", Rejected("bad entity"))
        await w.say("*a*")
        await w.drained()
        assert w.texts == ["\\*a\\*"]


@pytest.mark.parametrize("call", ["open_stream", "show", "finish"])
@pytest.mark.parametrize("error", [ChatGone("user_not_found"), TopicClosed("restricted_action"), NotAllowed("no", "x")])
async def test_what_is_refused_of_a_stream_ends_the_stream_alone(
    tmp_path: Path, call: str, error: ChannelError
) -> None:
    async with world(tmp_path, APPEND_ONLY) as w:
        w.channel.fail(call, *[error] * 20)
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="The first half of it."))
        await w.clock.advance(3)
        await w.say("The first half of it. And the second half.")
        await w.say("next", "r2")
        await w.drained()
        assert w.texts[-1] == "next"
        assert "And the second half." in w.texts[-2]
        assert reply.outcome in (Outcome.DELIVERED, Outcome.PLAIN)


@pytest.mark.parametrize(
    "mode", [MemoryMode(max_unit=200), MemoryMode(max_unit=200, edits=False)], ids=["edits", "none"]
)
async def test_what_an_earlier_process_has_shown_of_it_and_what_is_tried_without_formatting_fit_together(
    tmp_path: Path, mode: MemoryMode
) -> None:
    slow = Rate(per_second=30, per_chat_per_second=0.2, per_group_per_minute=20)
    async with world(tmp_path, mode, slow) as w:
        first = f"*{'a' * 198}*"
        await w.say(f"{first}BBBB")
        await w.clock.advance(1)
        assert w.texts == [first]
        await w.restart()
        w.channel.fail("send", Rejected("bad entity"))
        await w.drained()
        if mode.edits:
            assert "".join(w.texts) == plain(f"{first}BBBB")
        else:
            assert w.texts == [first, EN.platform_refused["part"]]


# Buttons


@pytest.mark.parametrize("done", [True, False], ids=["final", "draft"])
async def test_refused_buttons_become_numbers_and_the_words_keep_their_form(tmp_path: Path, done: bool) -> None:
    async with world(tmp_path, SEARCHED) as w:
        w.channel.fail("send", Rejected("this card is not taken"))
        reply = await w.delivery.open("r1", dm(), None)
        message = OutboundMessage(text="May I run `rm -rf x`?", buttons=YES_NO)
        if done:
            await w.say(message.text, buttons=YES_NO)
        else:
            reply.show(message)
        await w.clock.advance(5)
        assert w.texts == [f"May I run `rm -rf x`?\n\n{NUMBERED}"]


@pytest.mark.parametrize("done", [True, False], ids=["final", "draft"])
async def test_buttons_that_a_stream_cannot_end_in_are_numbers_below_it(tmp_path: Path, done: bool) -> None:
    async with world(tmp_path, APPEND_ONLY) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="May I run `rm -rf x`?"))
        await w.clock.advance(2)
        w.channel.fail("finish", ButtonsRefused("this card is not taken"), applied=True)
        if done:
            await w.say("May I run `rm -rf x`?", buttons=YES_NO)
        else:
            reply.show(OutboundMessage(text="May I run `rm -rf x`?", buttons=YES_NO))
        await w.clock.advance(5)
        assert w.texts == ["May I run `rm -rf x`?", NUMBERED]
