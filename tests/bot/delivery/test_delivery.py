"""How a reply becomes visible: sent early, edited, finished by its last edit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from bot.delivery import Outcome, idem_key
from bot.delivery.journal import Journal
from bot.delivery.reply import FIRST_WORDS, Reply
from bot.store import outbox
from bot.store.outbox import Sent
from channels.capabilities import Rate
from channels.message import Button, OutboundFile, OutboundMessage
from tests.delivery_world import SECRET, dm, group, world
from tests.memory_channel import FULL, NO_EDIT, NO_IDEMPOTENCY, MemoryMode

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection

BUTTONS = ((Button(label="Yes", data="p:0"), Button(label="No", data="p:1")),)
LONG = "".join(f"line {number}\n" for number in range(60))


async def test_an_answer_is_one_message_that_grows_and_ends_in_its_last_edit(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r1", dm(), "q1")
        reply.show(OutboundMessage(status="working"))
        await w.clock.settle()
        assert w.texts == ["working"]
        reply.show(OutboundMessage(text="Hel"))
        reply.show(OutboundMessage(text="Hello"))
        await w.clock.advance(1)
        assert w.texts == ["Hello"]
        await w.say("Hello, world")
        await w.clock.until(reply.delivered())
        (bubble,) = w.channel.chats["1"]
        assert list(bubble.history) == ["working", "Hello", "Hello, world"]
        assert bubble.reply_to is None  # between two people nothing is quoted
        assert reply.message_ids == {0: bubble.message_id}
        assert reply.outcome is Outcome.DELIVERED


async def test_first_words_do_not_wait_for_the_edit_interval(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r1", group(), "q1")
        reply.show(OutboundMessage(status="working"))
        await w.clock.settle()
        reply.show(OutboundMessage(text="Hel"))
        await w.clock.advance(FIRST_WORDS)
        reply.show(OutboundMessage(text="Hello"))
        await w.clock.advance(w.channel.capabilities.edit_interval_group)
        reply.show(OutboundMessage(status="searching"))
        await w.clock.advance(w.channel.capabilities.edit_interval_group)
        reply.show(OutboundMessage(text="So"))
        await w.clock.advance(FIRST_WORDS)
        (bubble,) = w.channel.chats["g"]
        assert list(bubble.history) == ["working", "Hel", "Hello", "searching", "So"]


async def test_first_words_wait_neither_for_an_equal_status_nor_behind_a_newer_one(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r1", group(), "q1")
        reply.show(OutboundMessage(status="working"))
        await w.clock.settle()
        reply.show(OutboundMessage(status="working"))
        reply.show(OutboundMessage(text="Hel"))
        await w.clock.advance(FIRST_WORDS)
        assert w.channel.texts("g") == ["Hel"]
        behind = await w.delivery.open("r2", group("h"), "q2")
        behind.show(OutboundMessage(status="working"))
        await w.clock.settle()
        behind.show(OutboundMessage(status="thinking"))
        await w.clock.advance(0.01)
        behind.show(OutboundMessage(text="Hel"))
        await w.clock.advance(FIRST_WORDS)
        assert w.channel.texts("h") == ["Hel"]


async def test_a_final_without_drafts_is_sent_once(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.say("Hello")
        await w.drained()
        assert w.texts == ["Hello"]
        assert len(w.calls()) == 1


async def test_many_drafts_become_few_edits(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r1", dm(), None)
        for number in range(500):
            reply.show(OutboundMessage(text="x" * (number + 1)))
            await w.clock.advance(0.02)
        assert 8 <= len(w.calls("edit")) <= 11
        gaps = [after - before for before, after in zip(w.calls("edit"), w.calls("edit")[1:], strict=False)]
        assert min(gaps) >= 1


async def test_an_equal_draft_costs_no_call(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r1", dm(), None)
        for _ in range(5):
            reply.show(OutboundMessage(text="same"))
            await w.clock.advance(5)
        assert w.calls("send", "edit") == w.calls("send")


async def test_nothing_comes_after_the_final(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r1", dm(), None)
        await w.say("done")
        reply.show(OutboundMessage(text="late"))
        await w.clock.advance(10)
        assert w.texts == ["done"]


async def test_typing_at_once_and_while_no_text_grows(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r1", dm(), None)
        await w.clock.settle()
        assert w.calls("typing") == [w.clock.monotonic()]
        await w.clock.advance(9)
        assert len(w.calls("typing")) == 3
        for end in range(1, 20):
            reply.show(OutboundMessage(text="here it is"[:end]))
            await w.clock.advance(1)
        assert len(w.calls("typing")) == 5, "ten seconds later it grows no more"
        await w.say("here it is.")
        await w.clock.advance(20)
        assert len(w.calls("typing")) == 5


async def test_a_sign_that_lasts_is_given_seldom_and_never_behind_words(tmp_path: Path) -> None:
    async with world(tmp_path, MemoryMode(typing_lasts=True)) as w:
        reply = await w.delivery.open("r1", dm(), None)
        await w.clock.advance(61)
        assert len(w.calls("typing")) == 2
        reply.show(OutboundMessage(text="here it is"))
        await w.clock.advance(200)
        assert len(w.calls("typing")) == 2


async def test_no_typing_while_a_person_is_to_decide(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r1", dm(), None)
        await w.clock.settle()
        reply.waits_for_person = True
        reply.show(OutboundMessage(status="waiting for you"))
        await w.clock.advance(30)
        assert len(w.calls("typing")) == 1
        asked = await w.delivery.open("r2", dm("2"), None)
        asked.show(OutboundMessage(status="queued", buttons=BUTTONS))
        await w.clock.advance(30)
        assert w.calls("typing", chat="2") == []


async def test_a_typing_action_that_hangs_holds_up_no_words(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.channel.hold("typing")
        reply = await w.delivery.open("r1", dm(), None)
        await w.clock.settle()
        assert len(w.calls("typing")) == 1
        reply.show(OutboundMessage(text="Hello"))
        await w.say("Hello, world")
        async with asyncio.timeout(10):
            await reply.delivered()
        assert w.texts == ["Hello, world"]


async def test_where_nothing_can_be_edited_only_the_final_is_sent(tmp_path: Path) -> None:
    async with world(tmp_path, NO_EDIT) as w:
        reply = await w.delivery.open("r1", dm(), None)
        for number in range(10):
            reply.show(OutboundMessage(text="x" * number, status="working"))
            await w.clock.advance(1)
        assert w.texts == []
        assert len(w.calls("typing")) == 3
        await w.say("answer")
        await w.drained()
        assert w.texts == ["answer"]


async def test_where_nothing_can_be_edited_a_question_stays_and_the_answer_goes_below(tmp_path: Path) -> None:
    async with world(tmp_path, NO_EDIT) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="May I?", buttons=BUTTONS))
        await w.clock.settle()
        assert w.texts == ["May I?"]
        await w.say("Done.")
        await w.drained()
        assert w.texts == ["May I?", "Done."]


async def test_a_question_does_not_wait_for_the_edit_interval(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="Hm"))
        await w.clock.settle()
        reply.show(OutboundMessage(text="May I?", buttons=BUTTONS))
        await w.clock.settle()
        (bubble,) = w.channel.chats["1"]
        assert bubble.part.buttons == BUTTONS
        assert reply.message_ids == {0: bubble.message_id}


async def test_long_text_fills_message_after_message(tmp_path: Path) -> None:
    async with world(tmp_path, MemoryMode(max_unit=100)) as w:
        reply = await w.delivery.open("r1", dm(), None)
        for end in range(0, len(LONG), 20):
            reply.show(OutboundMessage(text=LONG[:end], status="writing"))
            await w.clock.advance(3)
        await w.say(LONG)
        await w.drained()
        assert "".join(w.texts) == LONG
        assert len(w.calls("send")) == len(w.texts)
        # The prefix is left alone: a finished message is edited no more.
        assert all(len(bubble.history) <= 12 for bubble in w.channel.chats["1"])


async def test_messages_that_the_final_does_not_need_disappear(tmp_path: Path) -> None:
    async with world(tmp_path, MemoryMode(max_unit=100)) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text=LONG[:250]))
        await w.clock.advance(10)
        assert len(w.texts) == 3
        await w.say("Short.")
        await w.drained()
        assert w.texts == ["Short."]


async def test_files_come_after_the_text(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        files = (OutboundFile(path=tmp_path / "a", name="a.csv"), OutboundFile(path=tmp_path / "b", name="b.csv"))
        await w.say("See below", files=files)
        await w.drained()
        assert w.texts == ["See below", "a.csv", "b.csv"]


@pytest.mark.parametrize("mode", [FULL, NO_EDIT, NO_IDEMPOTENCY])
async def test_replies_of_one_chat_appear_in_their_order(tmp_path: Path, mode: MemoryMode) -> None:
    async with world(tmp_path, mode) as w:
        for number in range(8):
            await w.say(f"answer {number}", key=f"r{number}")
        await w.drained()
        assert w.texts == [f"answer {number}" for number in range(8)]


async def test_known_secrets_never_reach_the_chat_or_the_outbox(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r1", dm(), None)
        text = f"The key is {SECRET}, keep it."
        for end in range(0, len(text), 7):
            reply.show(OutboundMessage(text=text[:end], status=f"echo {SECRET}"))
            await w.clock.advance(1)
        buttons = ((Button(label=SECRET, data="x:0"),),)
        files = (OutboundFile(path=tmp_path / "f", name=f"{SECRET}.txt"),)
        w.channel.hold("edit")
        await w.say(text, buttons=buttons, files=files)
        rows = await w.store.read(lambda tx: outbox.load(tx, "r1"))
        assert SECRET not in rows[0].body
        w.channel.hold("edit").set()
        await w.drained()
        shown = repr([(list(bubble.history), bubble.part) for bubble in w.channel.chats["1"]]).replace(
            str(tmp_path), ""
        )
        assert SECRET not in shown
        assert w.texts[0] == "The key is [redacted], keep it."
        assert w.texts[1] == "[redacted].txt"


async def test_the_final_is_stored_with_the_run_or_not_at_all(tmp_path: Path) -> None:
    message = OutboundMessage(text="Hello", final=True)
    async with world(tmp_path) as w:

        def end_run(tx: Connection, fails: bool) -> None:
            w.delivery.finalize(tx, "r1", dm(), None, message)
            if fails:
                raise LookupError("the run is gone")

        with pytest.raises(LookupError):
            await w.store.write(lambda tx: end_run(tx, True))
        assert await w.store.read(lambda tx: outbox.load(tx, "r1")) == []
        await w.store.write(lambda tx: end_run(tx, False))
        reply = w.delivery.finished("r1", dm(), None, message)
        await w.clock.until(reply.delivered())
        assert w.texts == ["Hello"]
        assert await w.store.read(outbox.undelivered) == []


async def test_the_intent_is_committed_before_the_send(tmp_path: Path) -> None:
    async with world(tmp_path, MemoryMode(max_unit=100)) as w:
        gate = w.channel.hold("send")
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text=LONG[:150]))
        await w.clock.settle()
        assert len(w.calls("send")) == 1
        rows = await w.store.read(lambda tx: outbox.load(tx, "r1"))
        assert [(row.part, row.idem_key, row.message_id) for row in rows] == [(0, idem_key("r1", 0), None)]
        gate.set()
        await w.clock.settle()


async def test_finals_wait_for_their_channel(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.delivery.disconnect("memory")
        await w.clock.settle()
        await w.say("Hello")
        await w.clock.advance(60)
        assert w.texts == []
        w.delivery.register(w.channel)
        await w.drained()
        assert w.texts == ["Hello"]


async def test_without_the_lease_nothing_is_sent(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r2", dm(), None)
        reply.show(OutboundMessage(text="draft"))
        w.leased = False
        await w.say("Hello")
        await w.clock.advance(60)
        assert w.calls() == []
        w.leased = True
        await w.drained()
        assert "Hello" in w.texts


async def test_a_process_without_the_lease_ends_without_waiting_for_what_it_may_not_send(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.leased = False
        await w.say("Hello")
        began = w.clock.monotonic()
        await w.clock.until(w.delivery.close(8))
        assert (w.clock.monotonic() - began, w.texts) == (0, [])


async def test_a_lease_lost_during_the_intent_stops_the_send(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="draft"))
        async with asyncio.timeout(10):
            await w.store.writing.wait()
        w.leased = False
        await w.clock.advance(60)
        assert w.calls("send", "edit") == []
        assert len(await w.store.read(lambda tx: outbox.load(tx, "r1"))) == 1


async def test_a_final_for_a_draft_that_nobody_opened_again_edits_it(tmp_path: Path) -> None:
    async with world(tmp_path, NO_IDEMPOTENCY) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="Hel"))
        await w.clock.settle()
        await w.restart()
        await w.say("I was restarted, please ask again.")
        await w.drained()
        assert w.texts == ["I was restarted, please ask again."]


async def test_a_planned_stop_shows_the_last_draft_and_no_other(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="Hel"))
        await w.clock.settle()
        reply.show(OutboundMessage(text="Hello", status="paused for a restart"))
        reply.suspend()
        reply.show(OutboundMessage(text="too late"))
        began = w.clock.monotonic()
        await w.clock.until(w.delivery.close(30))
        assert w.clock.monotonic() - began < 3
        assert w.texts == ["Hello\n\npaused for a restart"]


async def test_a_stop_waits_for_finals_but_not_longer_than_the_grace(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.say("one", key="a")
        await w.clock.until(w.delivery.close(30))
        assert w.texts == ["one"]
        await w.restart()
        w.channel.hold("send")
        await w.say("two", key="b")
        reply = await w.delivery.open("b", dm(), None)
        began = w.clock.monotonic()
        await w.clock.until(w.delivery.close(30))
        assert w.clock.monotonic() - began == pytest.approx(30, abs=0.1)
        await w.clock.until(reply.delivered())
        assert reply.outcome is Outcome.PENDING


async def test_a_reply_is_reopened_where_it_was(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="Hel"))
        await w.clock.settle()
        assert await w.delivery.open("r1", dm(), None) is reply
        await w.restart()
        (draft,) = await w.delivery.undelivered_drafts()
        assert draft.reply_key == "r1"
        again = await w.delivery.open("r1", dm(), None)
        assert again.message_ids == {0: "m1"}
        assert await w.delivery.undelivered_drafts() == []
        again.show(OutboundMessage(text="Hello again"))
        await w.clock.advance(1)
        assert w.texts == ["Hello again"]


async def test_the_snapshot_tells_what_waits(tmp_path: Path) -> None:
    async with world(tmp_path, rate=Rate(per_second=30, per_chat_per_second=1, per_group_per_minute=20)) as w:
        w.channel.hold("send")
        await w.say("one", key="a")
        await w.delivery.open("b", dm("2"), None)
        await w.clock.advance(7)
        (account,) = w.delivery.snapshot()
        assert (account.account, account.open_replies, account.waiting_finals) == ("memory", 2, 1)
        assert account.oldest_wait == pytest.approx(7)
        assert account.stopped == ""


async def test_previews_in_a_dm_leave_one_message_at_the_end(tmp_path: Path) -> None:
    async with world(tmp_path, MemoryMode(previews=True)) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="Hel"))
        await w.clock.advance(1)
        assert w.texts == []
        assert w.channel.previews["1"].text == "Hel"
        await w.clock.advance(60)
        assert len(w.calls("preview")) == 4, "it is shown again before it fades"
        assert len(w.calls("typing")) <= 1, "the preview is a sign of life itself"
        await w.say("Hello")
        await w.drained()
        assert w.texts == ["Hello"]
        assert w.channel.previews == {}


async def test_previews_give_way_to_messages_for_questions_long_texts_and_groups(tmp_path: Path) -> None:
    async with world(tmp_path, MemoryMode(previews=True, max_unit=100)) as w:
        question = await w.delivery.open("r1", dm("1"), None)
        question.show(OutboundMessage(text="May I?", buttons=BUTTONS))
        long = await w.delivery.open("r2", dm("2"), None)
        long.show(OutboundMessage(text=LONG[:150]))
        grouped = await w.delivery.open("r3", group("3"), None)
        grouped.show(OutboundMessage(text="Hel"))
        await w.clock.advance(5)
        assert [w.channel.texts(chat) for chat in "13"] == [["May I?"], ["Hel"]]
        assert "".join(w.channel.texts("2")) == LONG[:150]
        assert w.calls("preview") == []


async def test_a_newer_final_that_comes_as_the_older_is_recorded_is_not_taken_for_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path) as w:
        newer, catch_up = OutboundMessage(text="newer", final=True), Journal.catch_up
        committed = asyncio.Event()

        async def between(journal: Journal, reply: Reply) -> None:
            if reply.unrecorded is not None and not committed.is_set():
                committed.set()
                w.delivery.finished("r1", dm(), None, newer)
                w.leased = False  # and this process sends nothing more
            await catch_up(journal, reply)

        send = w.channel.send

        async def sends(*args: Any, **kwargs: Any) -> str:
            sent = await send(*args, **kwargs)
            await w.store.write(lambda tx: w.delivery.finalize(tx, "r1", dm(), None, newer))
            w.channel.send = send  # type: ignore[method-assign]  # once
            return sent

        w.channel.send = sends  # type: ignore[method-assign]  # a newer final is committed meanwhile
        monkeypatch.setattr(Journal, "catch_up", between)
        await w.say("older")
        await w.clock.advance(2)
        assert w.texts == ["older"]
        w.leased = True
        await w.restart()
        await w.clock.advance(30)
        assert w.texts == ["newer"]


async def test_what_was_sent_is_recorded_though_the_call_was_cut_off(tmp_path: Path) -> None:
    """A channel that goes while the store is away takes no message id with it."""
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.unrecorded = Sent(reply_key="r1", part=0, message_id="m1", rev=1)
        recording = asyncio.create_task(w.delivery._journal.catch_up(reply))
        await asyncio.sleep(0)
        recording.cancel()
        await asyncio.wait({recording})
        assert reply.unrecorded is not None
        await w.delivery._journal.catch_up(reply)
        assert reply.unrecorded is None
