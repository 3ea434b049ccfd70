"""Platforms whose messages can only grow: what was shown stays, secrets are held back, streams end in time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.delivery.redaction import GrowingText
from bot.redaction import Redactor
from channels.capabilities import Rate
from channels.errors import MessageGone, OutcomeUnknown, Rejected
from channels.message import Button, OutboundMessage
from tests.delivery_world import SECRET, dm, world
from tests.memory_channel import APPEND_ONLY, MemoryMode

if TYPE_CHECKING:
    from pathlib import Path

BUTTONS = ((Button(label="Yes", data="p:0"),),)
TEXT = "The quick brown fox jumps over the lazy dog while the sender is still waiting for the answer. " * 3


async def test_a_stream_only_grows_and_ends_as_the_answer(tmp_path: Path) -> None:
    async with world(tmp_path, APPEND_ONLY) as w:
        reply = await w.delivery.open("r1", dm(), "q1")
        for end in range(0, len(TEXT), 10):
            reply.show(OutboundMessage(text=TEXT[:end], status="writing"))
            await w.clock.advance(0.5)
        (bubble,) = w.channel.chats["1"]
        assert 5 < len(bubble.history) < 20
        assert all(after.startswith(before) for before, after in pairwise(bubble.history))
        await w.say(TEXT)
        await w.drained()
        assert w.texts == [TEXT]
        assert not bubble.streaming
        assert bubble.reply_to is None


async def test_a_secret_is_never_begun(tmp_path: Path) -> None:
    text = f"{TEXT} {SECRET} {TEXT}"
    async with world(tmp_path, APPEND_ONLY) as w:
        reply = await w.delivery.open("r1", dm(), None)
        for end in range(0, len(text), 3):
            reply.show(OutboundMessage(text=text[:end]))
            await w.clock.advance(1)
        await w.say(text)
        await w.drained()
        (bubble,) = w.channel.chats["1"]
        assert not any(SECRET[:6] in shown for shown in bubble.history)
        assert bubble.text == text.replace(SECRET, "[redacted]")


async def test_words_before_a_tool_are_shown_to_their_end(tmp_path: Path) -> None:
    async with world(tmp_path, APPEND_ONLY) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="I will save the list for you."))
        await w.clock.advance(2)
        assert w.texts == ["I will save the list for you."]
        reply.show(OutboundMessage(text=f"I will save the list for you. It is {SECRET[:3]}"))
        await w.clock.advance(2)
        assert w.texts == ["I will save the list for you. It is"]


async def test_an_answer_that_ends_with_an_empty_line_is_shown_once(tmp_path: Path) -> None:
    async with world(tmp_path, APPEND_ONLY) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="It was built in 1931.\n"))
        await w.clock.advance(2)
        await w.say("It was built in 1931.")
        await w.drained()
        assert w.texts == ["It was built in 1931."]


async def test_the_text_of_the_next_step_goes_below(tmp_path: Path) -> None:
    async with world(tmp_path, APPEND_ONLY) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="Let me look that up in the archive of the town. "))
        await w.clock.advance(2)
        await w.say("It was built in 1931.")
        await w.drained()
        assert w.texts == ["Let me look that up in the archive of the town. \n\nIt was built in 1931."]


async def test_a_stream_is_ended_before_the_platform_does_and_goes_on_below(tmp_path: Path) -> None:
    mode = MemoryMode(edits=False, append_only=True, idempotent=False, findable=False, stream_ttl=60)
    async with world(tmp_path, mode) as w:
        reply = await w.delivery.open("r1", dm(), None)
        for end in range(0, len(TEXT)):
            reply.show(OutboundMessage(text=TEXT[:end]))
            await w.clock.advance(0.5)
        await w.say(TEXT)
        await w.drained()
        assert len(w.texts) == 3
        assert "".join(w.texts) == TEXT
        assert not any(bubble.streaming for bubble in w.channel.chats["1"])


PARAGRAPH = "The quick brown fox jumps over the lazy dog while the sender waits for the answer. " * 3 + "\n\n"
ONE_STREAM = MemoryMode(edits=False, append_only=True, idempotent=False, findable=False, stream_ttl=60)


async def test_an_answer_that_outlives_its_only_stream_says_so_and_goes_on_by_messages(tmp_path: Path) -> None:
    """No bubble ends as if that was all, nothing is silent until the end, and nothing is said twice or lost."""
    answer = (PARAGRAPH * 12).strip()
    async with world(tmp_path, ONE_STREAM) as w:
        reply = await w.delivery.open("r1", dm(), "q1")
        reply.goes_on = "Continues below"
        ended = w.clock.monotonic() + 54
        for end in range(0, len(answer), 12):
            if end == 12:  # there is one stream under each question
                w.channel.fail("open_stream", *[Rejected("answered before")] * 9)
            reply.show(OutboundMessage(text=answer[:end], status="reading"))
            await w.clock.advance(0.5)
        bubbles = w.channel.chats["1"]
        assert bubbles[0].text.endswith("Continues below")
        grown = [bubble.sent_at for bubble in bubbles[1:]]
        assert len(grown) >= 3
        assert all(6 <= later - sooner < 25 for sooner, later in pairwise([ended, *grown]))
        await w.say(answer)
        await w.drained()
        shown = "".join(w.texts).replace("Continues below", "")
        assert shown.replace("\n", "") == answer.replace("\n", "")
        assert not any("reading" in text for text in w.texts)


async def test_a_silent_stream_is_ended_in_time_too(tmp_path: Path) -> None:
    mode = MemoryMode(edits=True, append_only=True, idempotent=False, findable=False, stream_ttl=60)
    async with world(tmp_path, mode) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text=TEXT))
        await w.clock.advance(300)
        assert not w.channel.chats["1"][0].streaming
        assert w.calls("finish") == [w.calls("finish")[0]]
        reply.show(OutboundMessage(text=TEXT + "More."))
        await w.clock.advance(5)
        assert w.texts == [TEXT + "More."], "where edits work they go on"
        await w.say("Done.")
        await w.drained()
        assert w.texts == ["Done."]


async def test_a_broken_stream_leads_to_the_whole_answer_in_a_new_message(tmp_path: Path) -> None:
    async with world(tmp_path, APPEND_ONLY) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text=TEXT[:100]))
        await w.clock.advance(2)
        w.channel.fail("stream", MessageGone("846608 stream expired"))
        reply.show(OutboundMessage(text=TEXT[:200]))
        await w.clock.advance(2)
        await w.say(TEXT)
        await w.drained()
        assert w.texts[-1] == TEXT
        assert len(w.texts) == 2


STREAMS_AND_EDITS = MemoryMode(edits=True, append_only=True, idempotent=False)


async def test_where_no_stream_begins_the_answer_grows_by_edits_under_their_budget(tmp_path: Path) -> None:
    rate = Rate(per_second=30, per_chat_per_second=1, per_group_per_minute=60, edits_per_minute=20)
    async with world(tmp_path, STREAMS_AND_EDITS, rate) as w:
        w.channel.fail("open_stream", Rejected("no stream here"))
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text=TEXT[:50]))
        began = w.clock.monotonic()
        await w.clock.settle()
        assert w.texts == [TEXT[:50]], "nothing is held back"
        assert w.calls("send")[0] - began < 0.1
        for end in range(50, len(TEXT)):
            reply.show(OutboundMessage(text=TEXT[:end]))
            await w.clock.advance(0.25)
        assert 10 < len(w.calls("edit")) <= 20
        await w.say(TEXT)
        await w.drained()
        assert w.texts == [TEXT]
        assert (len(w.calls("open_stream")), len(w.calls("send"))) == (1, 1)


async def test_what_was_sent_in_place_of_a_stream_is_found_after_a_crash(tmp_path: Path) -> None:
    async with world(tmp_path, STREAMS_AND_EDITS) as w:
        w.channel.fail("open_stream", Rejected("no stream here"))
        w.channel.fail("send", OutcomeUnknown("reset"), applied=True)
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text=TEXT[:50]))
        await w.clock.settle()
        assert w.texts == [TEXT[:50]]
        await w.restart()
        again = await w.delivery.open("r1", dm(), None)
        again.show(OutboundMessage(text=TEXT[:100]))
        await w.clock.advance(2)
        (shown,) = w.texts
        assert shown.startswith(TEXT[:51])
        await w.say(TEXT)
        await w.drained()
        assert w.texts == [TEXT]
        assert (len(w.calls("open_stream")), len(w.calls("send"))) == (1, 1)


async def test_where_nothing_can_be_edited_either_only_the_answer_is_sent(tmp_path: Path) -> None:
    async with world(tmp_path, APPEND_ONLY) as w:
        w.channel.fail("open_stream", Rejected("no stream here"))
        reply = await w.delivery.open("r1", dm(), None)
        for end in range(50, 100):
            reply.show(OutboundMessage(text=TEXT[:end]))
            await w.clock.advance(0.25)
        assert w.texts == []
        await w.say(TEXT)
        await w.drained()
        assert w.texts == [TEXT]
        assert len(w.calls("open_stream")) == 1


async def test_a_question_ends_the_stream_and_the_answer_goes_below(tmp_path: Path) -> None:
    async with world(tmp_path, APPEND_ONLY) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="I would delete the file old.txt for you now."))
        await w.clock.advance(2)
        reply.show(OutboundMessage(text="I would delete the file old.txt for you now. May I?", buttons=BUTTONS))
        await w.clock.advance(2)
        (bubble,) = w.channel.chats["1"]
        assert bubble.text.endswith("May I?")
        assert bubble.part.buttons == BUTTONS
        await w.say("Deleted.")
        await w.drained()
        assert w.texts[0].endswith("May I?")
        assert w.texts[1].strip() == "Deleted."


async def test_what_a_stream_cannot_hold_follows_with_the_final(tmp_path: Path) -> None:
    mode = MemoryMode(edits=False, append_only=True, idempotent=False, findable=False, max_unit=100)
    async with world(tmp_path, mode) as w:
        reply = await w.delivery.open("r1", dm(), None)
        for end in range(0, len(TEXT), 10):
            reply.show(OutboundMessage(text=TEXT[:end]))
            await w.clock.advance(1)
        assert len(w.texts) == 1
        await w.say(TEXT)
        await w.drained()
        assert "".join(w.texts) == TEXT
        assert len(w.texts) == 3


async def test_what_a_stream_cannot_hold_follows_when_its_time_is_over(tmp_path: Path) -> None:
    async with world(tmp_path, replace(APPEND_ONLY, max_unit=100, stream_ttl=60.0)) as w:
        reply = await w.delivery.open("r1", dm(), None)
        for end in range(10, len(TEXT), 4):
            reply.show(OutboundMessage(text=TEXT[:end]))
            await w.clock.advance(1)
        assert len(w.texts) == 2
        await w.say(TEXT)
        await w.drained()
        assert "".join(w.texts) == TEXT


async def test_what_is_written_while_a_stream_ends_is_not_lost(tmp_path: Path) -> None:
    async with world(tmp_path, replace(APPEND_ONLY, stream_ttl=60.0)) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text=TEXT[:100]))
        await w.clock.advance(50)

        async def keep() -> bool:
            reply.show(OutboundMessage(text=TEXT[:150]))
            return True

        reply.keep = keep
        await w.clock.advance(10)
        await w.say(TEXT)
        await w.drained()
        assert "".join(w.texts) == TEXT
        assert len(w.texts) == 2


async def test_an_answer_whose_stream_did_not_survive_a_restart_is_pushed_anew(tmp_path: Path) -> None:
    async with world(tmp_path, APPEND_ONLY) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text=TEXT[:100]))
        await w.clock.advance(2)
        await w.restart()
        again = await w.delivery.open("r1", dm(), None)
        again.show(OutboundMessage(text=TEXT[:150]))
        await w.clock.advance(2)
        await w.say(TEXT)
        await w.drained()
        assert w.texts.count(TEXT) == 1
        assert len(w.texts) == 2


@given(st.lists(st.text(alphabet="ab" + SECRET, max_size=12), max_size=12), st.integers(0, 40))
def test_growing_text_only_grows_and_shows_all_in_the_end(pieces: list[str], hold: int) -> None:
    growing = GrowingText()
    whole, shown = "", ""
    for piece in pieces:
        whole += piece
        now = growing.grow(whole, hold)
        assert now.startswith(shown)
        assert whole.startswith(now)
        shown = now
    assert growing.grow(whole, 0) == whole


@given(
    st.lists(
        st.sampled_from([SECRET, SECRET[:9], SECRET[:3], SECRET[:1], SECRET[3:], "hello ", "\n", "[redacted]"]),
        max_size=12,
    ),
    st.integers(1, 9),
)
def test_no_cut_of_a_growing_text_shows_a_secret(pieces: list[str], step: int) -> None:
    redact, growing, text = Redactor([SECRET]), GrowingText(), "".join(pieces)
    for end in range(0, len(text) + 1, step):
        now = redact.without_beginning(redact(text[:end]))
        shown = growing.grow(now, redact.begun_in(now))
        assert redact(text).startswith(shown), "no beginning of what turns out to be a secret was shown"
    assert growing.grow(redact(text), 0) == redact(text)


def test_an_added_paragraph_is_not_repeated_when_it_turns_out_to_be_the_last() -> None:
    growing, text = GrowingText(), "word " * 50
    growing.grow(text, 0)
    growing.mark()
    growing.cut()
    assert growing.add(f"{text}\n\n{text}\n\n", 0) == f"{text}\n"
    growing.mark()
    growing.cut()
    assert growing.grow(f"{text}\n\n{text}".rstrip(), 0) == ""


def test_a_code_block_that_a_stream_ended_in_is_opened_again() -> None:
    growing = GrowingText()
    text = "see\n```python\nprint(1)\n"
    assert growing.grow(text, 0) == text
    growing.mark()
    growing.cut()
    assert growing.grow(text + "print(2)\n```", 0) == "```python\nprint(2)\n```"


@pytest.mark.parametrize(
    ("above", "below", "shown"),
    [
        ("| a |\n|---|\n| 1 |\n| 2", "3 |\n| 4 |", "| a |\n|---|\n| 23 |\n| 4 |"),
        ("| a |\n|---|\n| 1 |\n\nand", " so on", " so on"),
        ("```py\nx = 1\ny =", " 2\n```", "```py\ny = 2\n```"),
        ("it is **very *mu", "ch* so**", "***ch* so**"),
        ("a **b**", "\n\n| c |", "| c |"),
    ],
)
def test_a_divided_text_looks_the_same_below(above: str, below: str, shown: str) -> None:
    growing = GrowingText()
    growing.grow(above, 0)
    growing.mark()
    growing.cut()
    assert growing.add(above, 0) == ""
    assert growing.grow(above + below, 0) == shown


async def test_where_only_messages_can_be_added_a_long_silence_is_explained_once(tmp_path: Path) -> None:
    async with world(tmp_path, APPEND_ONLY) as w:
        w.channel.fail("open_stream", Rejected("no stream here"))
        reply = await w.delivery.open("r1", dm(), None)
        reply.takes_a_while = "Still working."
        reply.show(OutboundMessage(status="Working…"))
        await w.clock.advance(7)
        assert w.texts == []
        await w.clock.advance(8)
        assert w.texts == ["Still working."]
        for second in range(120):
            reply.show(OutboundMessage(status=f"a tool, for {second} s"))
            await w.clock.advance(1)
        assert w.texts == ["Still working."]
        await w.say(TEXT)
        await w.drained()
        assert w.texts == ["Still working.", TEXT]


async def test_where_something_is_to_be_seen_no_silence_is_explained(tmp_path: Path) -> None:
    async with world(tmp_path, APPEND_ONLY) as w:
        streamed = await w.delivery.open("r1", dm("1"), None)
        streamed.takes_a_while = "Still working."
        streamed.show(OutboundMessage(status="Working…"))
        await w.clock.advance(60)
        assert w.channel.texts("1") == [""]  # a stream, which shows the status
        w.channel.fail("open_stream", Rejected("no stream here"))
        quick = await w.delivery.open("r2", dm("2"), None)
        quick.takes_a_while = "Still working."
        quick.show(OutboundMessage(status="Working…"))
        await w.clock.advance(5)
        await w.say(TEXT, key="r2", chat="2")
        await w.drained()
        assert w.channel.texts("2") == [TEXT]


async def test_where_only_an_addition_tells_of_a_stop_a_quiet_stream_is_touched_now_and_then(tmp_path: Path) -> None:
    async with world(tmp_path, replace(APPEND_ONLY, stream_sign=5.0)) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(status="Working…"))
        await w.clock.advance(61)
        touched = len(w.calls()) - len(w.calls("open_stream"))
        assert 11 <= touched <= 14
        await w.say(TEXT)
        await w.drained()
        assert w.texts == [TEXT]
    async with world(tmp_path, APPEND_ONLY) as w:
        reply = await w.delivery.open("r2", dm(), None)
        reply.show(OutboundMessage(status="Working…"))
        await w.clock.advance(61)
        assert len(w.calls()) - len(w.calls("open_stream")) <= 2
