"""What each failure of the platform means for a reply (channels/errors.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bot.delivery import Outcome
from bot.store import outbox
from channels.errors import (
    ChatGone,
    ChatMoved,
    Fatal,
    OutcomeUnknown,
    RateLimited,
    Rejected,
    Temporary,
)
from channels.message import OutboundFile, OutboundMessage
from tests.delivery_world import dm, world
from tests.memory_channel import APPEND_ONLY, FULL, NO_EDIT, NO_IDEMPOTENCY, MemoryMode

if TYPE_CHECKING:
    from pathlib import Path

ALL = [FULL, APPEND_ONLY, NO_EDIT, NO_IDEMPOTENCY]


async def test_a_limited_chat_waits_as_long_as_it_was_told_and_gets_its_final(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="Hel"))
        await w.clock.settle()
        w.channel.fail("edit", RateLimited("slow down", 37.0))
        reply.show(OutboundMessage(text="Hello"))
        await w.clock.advance(2)
        limited_at = w.calls("edit")[-1]
        await w.say("Hello, world")
        other = await w.delivery.open("r2", dm("2"), None)
        other.show(OutboundMessage(text="free"))
        await w.clock.settle()
        assert w.channel.texts("2") == ["free"], "other chats go on"
        await w.clock.advance(35)
        assert w.calls("edit") == [limited_at], "nobody asks again before"
        await w.clock.until(reply.delivered())
        assert w.texts == ["Hello, world"]
        assert w.clock.monotonic() == pytest.approx(limited_at + 37, abs=0.1)


async def test_edits_are_spaced_wider_after_a_limit_and_by_and_by_as_before(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="x"))
        await w.clock.settle()
        w.channel.fail("edit", RateLimited("slow down", 1.0))
        for number in range(300):
            reply.show(OutboundMessage(text="x" * (number + 2)))
            await w.clock.advance(0.1)
        gaps = [after - before for before, after in zip(w.calls("edit"), w.calls("edit")[1:], strict=False)]
        assert max(gaps) > 1.5
        assert max(gaps[-5:]) < 1.2


@pytest.mark.parametrize("mode", ALL)
async def test_a_final_outlasts_hours_of_failures(tmp_path: Path, mode: MemoryMode) -> None:
    async with world(tmp_path, mode) as w:
        w.channel.fail("send", *[Temporary("refused")] * 100)
        await w.say("Hello")
        await w.drained()
        assert w.texts == ["Hello"]
        assert len(w.calls("send")) == 101
        gaps = [after - before for before, after in zip(w.calls("send"), w.calls("send")[1:], strict=False)]
        assert max(gaps) <= 61
        assert min(gaps[10:]) >= 29


async def test_a_failing_final_keeps_its_place_for_a_while_and_then_lets_others_pass(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.channel.fail("send", *[Temporary("refused")] * 3)
        await w.say("first", key="a")
        await w.say("second", key="b")
        await w.drained()
        assert w.texts == ["first", "second"]
        draft = await w.delivery.open("c", dm(), None)
        draft.show(OutboundMessage(text="th"))
        await w.clock.advance(60)
        w.channel.fail("edit", *[Temporary("refused")] * 20)
        await w.say("third", key="c")
        await w.say("fourth", key="d")
        await w.clock.advance(50)
        assert w.texts[2:] == ["th"]
        await w.clock.advance(70)
        assert w.texts[2:] == ["th", "fourth"]
        await w.drained()
        assert w.texts[2:] == ["third", "fourth"]


async def test_a_lost_answer_to_an_idempotent_send_is_asked_for_again(tmp_path: Path) -> None:
    async with world(tmp_path, FULL) as w:
        w.channel.fail("send", OutcomeUnknown("read timed out"), applied=True)
        await w.say("Hello")
        await w.drained()
        assert w.texts == ["Hello"]
        assert len(w.calls("find")) == 0


async def test_a_repeated_send_that_gives_back_an_older_text_is_edited(tmp_path: Path) -> None:
    async with world(tmp_path, FULL) as w:
        w.channel.fail("send", OutcomeUnknown("read timed out"), applied=True)
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="Hel"))
        await w.clock.settle()
        await w.say("Hello")
        await w.drained()
        assert w.texts == ["Hello"]


async def test_a_lost_send_is_looked_for_before_anything_is_repeated(tmp_path: Path) -> None:
    async with world(tmp_path, MemoryMode(idempotent=False)) as w:
        w.channel.fail("send", OutcomeUnknown("read timed out"), applied=True)
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="Hel"))
        await w.clock.advance(5)
        assert reply.message_ids == {0: "m1"}
        await w.say("Hello")
        await w.drained()
        assert w.texts == ["Hello"]
        assert len(w.calls("send")) == 1


async def test_a_send_that_was_certainly_not_applied_is_repeated(tmp_path: Path) -> None:
    async with world(tmp_path, MemoryMode(idempotent=False)) as w:
        w.channel.fail("send", OutcomeUnknown("reset"), OutcomeUnknown("reset"), OutcomeUnknown("reset"))
        await w.say("Hello")
        await w.drained()
        assert w.texts == ["Hello"]


@pytest.mark.parametrize("applied", [True, False])
async def test_a_lost_draft_is_not_sent_again_but_the_final_is(tmp_path: Path, applied: bool) -> None:
    async with world(tmp_path, NO_IDEMPOTENCY) as w:
        w.channel.fail("send", OutcomeUnknown("read timed out"), applied=applied)
        reply = await w.delivery.open("r1", dm(), None)
        for number in range(20):
            reply.show(OutboundMessage(text="Hel" * (number + 1)))
            await w.clock.advance(1)
        assert len(w.calls("send")) == 1
        await w.say("Hello")
        await w.drained()
        assert w.texts.count("Hello") == 1
        assert len(w.calls("send")) == 2


async def test_a_lost_final_is_repeated_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with world(tmp_path, NO_IDEMPOTENCY) as w:
        w.channel.fail("send", *[OutcomeUnknown("read timed out")] * 5)
        await w.say("Hello")
        await w.drained()
        assert len(w.calls("send")) == 2
        assert "sending again" in caplog.text
        assert "treated as sent" in caplog.text


async def test_what_is_said_after_a_lost_final_comes_after_its_repeat(tmp_path: Path) -> None:
    async with world(tmp_path, NO_IDEMPOTENCY) as w:
        w.channel.fail("send", OutcomeUnknown("read timed out"))
        await w.say("first", "r1")
        await w.say("second", "r2")
        await w.drained()
        assert w.texts == ["first", "second"]


async def test_a_wire_that_stays_dead_does_not_hold_back_a_chat_for_ever(tmp_path: Path) -> None:
    async with world(tmp_path, NO_IDEMPOTENCY) as w:
        w.channel.health.last_sign = w.clock.monotonic()
        w.channel.fail("send", OutcomeUnknown("read timed out"))
        await w.say("first", "r1")
        await w.say("second", "r2")
        await w.clock.advance(30)
        assert w.texts == []
        await w.clock.advance(40)
        assert w.texts[0] == "second"


async def test_a_lost_final_is_not_repeated_into_a_dead_wire(tmp_path: Path) -> None:
    async with world(tmp_path, NO_IDEMPOTENCY) as w:
        w.channel.health.last_sign = w.clock.monotonic()
        w.channel.fail("send", OutcomeUnknown("read timed out"))
        await w.say("Hello")
        await w.clock.advance(600)
        assert len(w.calls("send")) == 1
        w.channel.health.last_sign = w.clock.monotonic()
        await w.drained()
        assert w.texts == ["Hello"]


async def test_an_edit_with_unknown_outcome_is_repeated(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="Hel"))
        await w.clock.settle()
        w.channel.fail("edit", OutcomeUnknown("read timed out"), applied=True)
        w.channel.fail("edit", OutcomeUnknown("read timed out"))
        await w.say("Hello")
        await w.drained()
        assert w.texts == ["Hello"]
        assert len(w.calls("edit")) == 3


@pytest.mark.parametrize("mode", [FULL, NO_IDEMPOTENCY])
async def test_a_deleted_message_is_replaced_by_a_new_one(tmp_path: Path, mode: MemoryMode) -> None:
    async with world(tmp_path, mode) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="Hel"))
        await w.clock.settle()
        w.channel.remove("1", "m1")
        await w.say("Hello")
        await w.drained()
        assert w.texts == ["Hello"]
        assert reply.message_ids == {0: "m2"}


async def test_a_refused_draft_is_dropped_and_the_next_one_shown(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.channel.fail("send", Rejected("bad entity"))
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="<bad>"))
        await w.clock.advance(30)
        assert len(w.calls("send")) == 1
        reply.show(OutboundMessage(text="good"))
        await w.clock.advance(1)
        assert w.texts == ["good"]


async def test_only_the_first_refused_draft_of_an_answer_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(tmp_path) as w:
        w.channel.fail("send", *[Rejected("bad entity")] * 3)
        reply = await w.delivery.open("r1", dm(), None)
        for text in ("one", "one two", "one two three"):
            reply.show(OutboundMessage(text=text))
            await w.clock.advance(30)
        assert len(w.calls("send")) == 3
        assert [each.levelname for each in caplog.records if "a draft was refused" in each.message] == ["WARNING"]


async def test_a_refused_preview_falls_back_to_a_message(tmp_path: Path) -> None:
    async with world(tmp_path, MemoryMode(previews=True)) as w:
        w.channel.fail("preview", Rejected("no drafts in this chat"))
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="Hel"))
        await w.clock.advance(2)
        assert w.texts == ["Hel"]


async def test_a_refused_final_is_shown_without_formatting(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.channel.fail("send", Rejected("bad entity"))
        reply = await w.delivery.say("r1", dm(), None, OutboundMessage(text="*a*\n    b", final=True))
        await w.drained()
        assert w.texts == ["\\*a\\*\n\u00a0\u00a0\u00a0\u00a0b"]
        assert reply.outcome is Outcome.PLAIN


async def test_a_refused_file_does_not_take_the_text_with_it(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        draft = await w.delivery.open("r1", dm(), None)
        draft.show(OutboundMessage(text="*a"))
        await w.clock.settle()
        w.channel.fail("send", Rejected("file too big"))
        files = (OutboundFile(path=tmp_path / "f", name="f.bin"),)
        reply = await w.delivery.say("r1", dm(), None, OutboundMessage(text="*a*", files=files, final=True))
        await w.drained()
        assert w.texts == ["*a*"]
        assert reply.outcome is Outcome.WITHOUT_FILES


async def test_a_refused_file_is_named_and_the_others_are_sent(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        files = tuple(
            OutboundFile(path=tmp_path / name, name=name, instead=f"{name} was not sent") for name in ("a", "b", "c")
        )
        draft = await w.delivery.open("r1", dm(), None)
        draft.show(OutboundMessage(text="Three"))
        await w.clock.settle()
        w.channel.fail("send", Rejected("this kind is not taken"))
        reply = await w.delivery.say("r1", dm(), None, OutboundMessage(text="Three files", files=files, final=True))
        await w.drained()
        assert reply.outcome is Outcome.WITHOUT_FILES
        assert w.texts == ["Three files", "b", "c", "a was not sent"]


async def test_a_crash_after_a_refusal_sends_nothing_twice(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        files = tuple(OutboundFile(path=tmp_path / name, name=name, instead=f"no {name}") for name in ("a", "b"))
        message = OutboundMessage(text="Two files", files=files, final=True)
        draft = await w.delivery.open("r1", dm(), None)
        draft.show(OutboundMessage(text="Two"))
        await w.clock.settle()
        w.channel.fail("send", Rejected("not taken"), Fatal("401", "a new token"))
        await w.delivery.say("r1", dm(), None, message)
        await w.clock.advance(10)
        assert w.texts == ["Two files"]
        await w.restart()
        w.channel.fail("send", Rejected("not taken"))
        await w.drained()
        assert w.texts == ["Two files", "b", "no a"]


async def test_what_is_refused_in_every_form_is_given_up_with_a_reason(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.channel.fail("send", *[Rejected("spam")] * 5)
        reply = await w.delivery.say("r1", dm(), None, OutboundMessage(text="Hello", final=True))
        await w.clock.until(reply.delivered())
        assert len(w.calls("send")) == 3, "as it is, without formatting, and the sentence instead"
        assert reply.outcome is Outcome.ABANDONED
        assert await w.store.read(outbox.undelivered) == []


async def test_a_closed_chat_ends_all_its_replies_and_no_others(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        gate = w.channel.hold("send")
        draft = await w.delivery.open("r0", dm("1"), None)
        w.channel.fail("send", ChatGone("blocked by the user"))
        gone = [await w.delivery.say(f"r{n}", dm("1"), None, OutboundMessage(text="x", final=True)) for n in (1, 2, 3)]
        await w.clock.settle()  # the first of them is at the gate, and takes the failure
        await w.say("fine", key="other", chat="2")
        gate.set()
        await w.drained()
        assert {reply.outcome for reply in [*gone, draft]} == {Outcome.ABANDONED}
        assert w.channel.texts("2") == ["fine"]
        assert len(w.calls("send", chat="1")) == 1
        assert await w.store.read(outbox.undelivered) == []


async def test_a_moved_chat_takes_its_replies_along(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        gate = w.channel.hold("send")
        w.channel.fail("send", ChatMoved("upgraded", "-100"))
        await w.say("one", key="a")
        await w.say("two", key="b")
        gate.set()
        await w.drained()
        assert w.channel.texts("-100") == ["one", "two"]
        assert w.moved == [("memory", "1", "-100")]
