"""The process dies at any moment; the next one makes good what it left."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bot.delivery.sender import Sender
from bot.store import outbox, runs
from bot.texts.markdown import plain
from channels.capabilities import Rate
from channels.errors import OutcomeUnknown, Rejected, Temporary
from channels.message import Button, OutboundMessage
from tests.bot.store.samples import run_row
from tests.delivery_world import ProbedChannel, WatchedChannel, World, dm, world
from tests.memory_channel import APPEND_ONLY, FULL, NO_EDIT, NO_IDEMPOTENCY, RESUMED, SEARCHED, MemoryMode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from bot.delivery import Reply
    from bot.delivery.plan import Step

SMALL = 30
PARTS = (
    "first part of the answer".ljust(SMALL - 1) + "\n",
    "second part of it".ljust(SMALL - 1) + "\n",
    "the last part",
)
ANSWER = "".join(PARTS)
"""Its parts are as long as a message, so that every kind of platform cuts it alike."""
BEFORE = "the answer before it"
DROP = ((Button(label="Drop", data="w:0"),),)
POINTS = 90


def small(mode: MemoryMode, **changes: bool) -> MemoryMode:
    return MemoryMode(
        notifies=changes.get("notifies", False),
        edits=mode.edits,
        append_only=mode.append_only,
        idempotent=changes.get("idempotent", mode.idempotent),
        findable=mode.findable,
        replies=mode.replies,
        resumes=mode.resumes,
        max_unit=SMALL,
    )


EXACT = [small(FULL), small(FULL, idempotent=False), small(NO_EDIT)]
"""Platforms on which a crash leaves no trace: a send can be repeated, or looked up."""
LEAVING_TRACES = [small(NO_IDEMPOTENCY), small(APPEND_ONLY), small(RESUMED)]
EACH = [
    *((mode, WatchedChannel) for mode in (*EXACT, *LEAVING_TRACES)),
    (small(SEARCHED), ProbedChannel),
]
CALLING: list[tuple[MemoryMode, type[WatchedChannel]]] = [
    (small(FULL, notifies=True), WatchedChannel),
    (small(FULL, notifies=True, idempotent=False), WatchedChannel),
    (small(SEARCHED, notifies=True), ProbedChannel),
]
"""Platforms on which what people wait for comes as a new message."""


async def answer(w: World, key: str) -> None:
    """What a run does: open or reopen, show, commit the final with its own end."""
    rows = await w.store.read(lambda tx: outbox.load(tx, key))
    if rows and rows[0].final:
        return
    reply = await w.delivery.open(key, dm(), w.channel.next_id())
    reply.show(OutboundMessage(text=PARTS[0], status="working"))
    await w.clock.sleep(1)
    reply.show(OutboundMessage(text=ANSWER[:45]))
    await w.clock.sleep(3)
    await w.say(ANSWER, key=key)
    await w.delivery.drained()


async def long_answer(w: World, key: str) -> None:
    """What a run does whose answer is noticed by nobody while it grows: first a status, then words in its place."""
    rows = await w.store.read(lambda tx: outbox.load(tx, key))
    if rows and rows[0].final:
        return
    reply = await w.delivery.open(key, dm(), w.channel.next_id())
    reply.show(OutboundMessage(status="working"))
    await w.clock.sleep(3)
    reply.show(OutboundMessage(text=ANSWER[:45]))
    await w.clock.sleep(3)
    await w.say(ANSWER, key=key)
    await w.delivery.drained()


async def waited_answer(w: World, key: str) -> None:
    """What a run does whose message waited for the answer before it, and whose first part takes the notice's place."""
    rows = await w.store.read(lambda tx: outbox.load(tx, key))
    if rows and rows[0].final:
        return
    before = f"{key}-before"
    await asked(w, before)
    await asked(w, key)
    reply = await w.delivery.open(key, dm(), w.channel.next_id())
    reply.show(OutboundMessage(status="queued", buttons=DROP))
    await w.clock.sleep(1)
    await w.say(BEFORE, key=before)
    await w.clock.sleep(2)
    reply.show(OutboundMessage(text=ANSWER[:45]))
    await w.clock.sleep(3)
    await w.say(ANSWER, key=key)
    await w.delivery.drained()


async def begun_answer(w: World, key: str) -> None:
    """The same, where the start of the run has committed that the first message will be sent."""
    reply = await w.delivery.open(key, dm(), None)
    await intended_early(w, reply)
    await long_answer(w, key)


async def answer_at_once(w: World, key: str) -> None:
    """What a run does whose answer is there before anything of it is shown."""
    reply = await w.delivery.open(key, dm(), None)
    if not reply.final:
        await intended_early(w, reply)
        await w.say(ANSWER, key=key)
    await w.delivery.drained()


async def intended_early(w: World, reply: Reply) -> None:
    intent = w.delivery.intent(reply)
    if intent is not None:
        await w.store.write(lambda tx: outbox.intend(tx, [intent]))
        reply.intended_early()


async def asked(w: World, key: str) -> None:
    """A message of the chat begins a run."""
    if await w.store.read(lambda tx: runs.load(tx, key)) is None:
        run = replace(run_row(conversation="memory:1", address=dm()), run_id=key, reply_key=key)
        await w.store.write(lambda tx: runs.open(tx, run))


async def killed_at(w: World, point: int, key: str, answer: Callable[[World, str], Awaitable[None]] = answer) -> bool:
    """Answer once, killed at that step and started again; False when the run has fewer steps."""
    tripwire = w.arm(point)
    life = asyncio.ensure_future(answer(w, key))
    death = asyncio.ensure_future(tripwire.tripped.wait())
    await w.clock.until(asyncio.wait({life, death}, return_when=asyncio.FIRST_COMPLETED))
    killed = death.done()
    for task in (life, death):
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    if killed:
        w.arm(0)
        await w.restart()
        await w.clock.until(answer(w, key))
        await w.drained()
    return killed


IDS = ["full", "findable", "no-edit", "bare", "stream", "resumed", "probed"]


@pytest.mark.parametrize(("mode", "platform"), EACH, ids=IDS)
async def test_killed_at_every_step_the_answer_is_there_once(
    tmp_path: Path, mode: MemoryMode, platform: type[WatchedChannel]
) -> None:
    allowed = 0 if mode in EXACT else len(PARTS) if mode.append_only and not mode.resumes else 1
    async with world(tmp_path, mode, platform=platform) as w:
        for point in range(1, POINTS):
            if not await killed_at(w, point, f"r{point}"):
                assert point > 10, "the tripwire is in the way of nothing"
                return
            texts = [text.strip() for text in w.channel.texts("1")]
            expected = [part.strip() for part in PARTS]
            assert contains(texts, expected), f"killed at step {point}: {texts}"
            assert len(texts) - len(expected) <= allowed, f"killed at step {point}: {texts}"
            assert await w.store.read(outbox.undelivered) == []
            assert not any("working" in text for text in texts) or not mode.edits or allowed
            w.channel.chats.clear()
            await w.clock.advance(60)
        pytest.fail("the run has more steps than were tried")


@pytest.mark.parametrize(("mode", "platform"), CALLING, ids=["full", "findable", "probed"])
@pytest.mark.parametrize(
    ("answer", "expected"),
    [(long_answer, PARTS), (begun_answer, PARTS), (waited_answer, (BEFORE, *PARTS))],
    ids=["long", "begun", "waited"],
)
async def test_killed_at_every_step_the_answer_that_calls_is_there_once_and_nothing_else(
    tmp_path: Path,
    mode: MemoryMode,
    platform: type[WatchedChannel],
    answer: Callable[[World, str], Awaitable[None]],
    expected: tuple[str, ...],
) -> None:
    async with world(tmp_path, mode, platform=platform) as w:
        for point in range(1, POINTS):
            if not await killed_at(w, point, f"r{point}", answer):
                assert point > 20, "the tripwire is in the way of nothing"
                assert w.calls("delete")
                return
            texts = [text.strip() for text in w.channel.texts("1")]
            assert texts == [part.strip() for part in expected], f"killed at step {point}: {texts}"
            assert await w.store.read(outbox.undelivered) == []
            w.channel.chats.clear()
            await w.clock.advance(60)
        pytest.fail("the run has more steps than were tried")


@pytest.mark.parametrize("before", [False, True], ids=["once", "and before it had anything to show"])
@pytest.mark.parametrize(("mode", "platform"), CALLING, ids=["full", "findable", "probed"])
async def test_killed_at_every_step_an_answer_that_had_no_draft_stays_the_message_that_it_was(
    tmp_path: Path, mode: MemoryMode, platform: type[WatchedChannel], before: bool
) -> None:
    """People may have pressed its buttons by then."""
    async with world(tmp_path, mode, platform=platform) as w:
        for point in range(1, POINTS):
            if before:
                await intended_early(w, await w.delivery.open(f"r{point}", dm(), None))
                await w.restart()
            if not await killed_at(w, point, f"r{point}", answer_at_once):
                assert point > 8, "the tripwire is in the way of nothing"
                assert w.calls("delete") == []
                return
            texts = [text.strip() for text in w.channel.texts("1")]
            assert texts == [part.strip() for part in PARTS], f"killed at step {point}: {texts}"
            w.channel.chats.clear()
            await w.clock.advance(60)
        pytest.fail("the run has more steps than were tried")


def contains(texts: list[str], expected: list[str]) -> bool:
    """The expected texts in their order, with others between them at most."""
    rest = iter(texts)
    return all(part in rest for part in expected)


@pytest.mark.parametrize("mode", [FULL, NO_IDEMPOTENCY, SEARCHED, APPEND_ONLY, MemoryMode(previews=True)], ids=str)
async def test_no_word_of_a_draft_is_shown_before_it_is_kept(tmp_path: Path, mode: MemoryMode) -> None:
    """What the platform has taken and nobody has written down would be taken back by the next process."""
    async with world(tmp_path, mode) as w:
        reply, kept, room = await w.delivery.open("r1", dm(), None), [""], asyncio.Event()

        async def keep() -> bool:
            wanted = reply.wanted
            await room.wait()
            assert wanted is not None
            kept.append(wanted.text)
            return True

        def shown() -> list[str]:
            return w.texts + [part.text for part in w.channel.previews.values()]

        reply.keep = keep
        for end in range(10, 120, 10):
            room.clear()
            before = shown()
            reply.show(OutboundMessage(text=("word " * 30)[:end]))
            await w.clock.advance(3)
            assert shown() in (before, [""])
            room.set()
            await w.clock.advance(1)
            assert all(kept[-1].startswith(text.strip()) for text in shown())
        assert len(kept) > 5
        await w.say("the end")
        await w.drained()
        assert w.texts[-1].endswith("the end")
        assert kept[-1] != "the end", "a final is stored before it is said"


async def test_an_intent_without_a_send_is_sent(tmp_path: Path) -> None:
    async with world(tmp_path, NO_IDEMPOTENCY) as w:
        gate = w.channel.hold("send")
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="Hel"))
        await w.clock.settle()
        await w.restart()
        gate.set()
        again = await w.delivery.open("r1", dm(), None)
        again.show(OutboundMessage(text="Hello"))
        await w.clock.settle()
        assert w.texts == ["Hello"]


async def test_a_send_that_was_not_recorded_gives_back_its_old_text_and_is_edited(tmp_path: Path) -> None:
    async with world(tmp_path, FULL) as w:
        w.channel.fail("send", OutcomeUnknown("read timed out"), applied=True)
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="Hel"))
        await w.clock.settle()
        await w.restart()
        await w.say("Hello")
        await w.drained()
        assert w.texts == ["Hello"]


async def test_a_stored_final_edits_the_placeholder(tmp_path: Path) -> None:
    async with world(tmp_path, NO_IDEMPOTENCY) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="Hel"))
        await w.clock.settle()
        w.channel.fail("edit", *[Temporary("no route")] * 50)
        await w.say("Hello")
        await w.clock.advance(20)
        await w.restart()
        await w.drained()
        assert w.texts == ["Hello"]
        assert len(w.calls("send")) == 1


async def test_parts_that_were_sent_are_not_sent_again(tmp_path: Path) -> None:
    async with world(tmp_path, small(NO_EDIT)) as w:
        await w.say(ANSWER)
        await w.clock.settle()
        sent = len(w.texts)
        assert sent > 0
        w.channel.fail("send", *[Temporary("no route")] * 50)
        await w.clock.advance(5)
        await w.restart()
        calls = len(w.calls("send"))
        w.channel._faults.clear()
        await w.drained()
        assert [text.strip() for text in w.texts] == [part.strip() for part in PARTS]
        assert len(w.calls("send")) - calls <= len(PARTS) - sent + 1


async def test_a_zombie_without_its_lease_sends_nothing(tmp_path: Path) -> None:
    async with world(tmp_path, NO_IDEMPOTENCY) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="Hel"))
        await w.clock.settle()
        w.leased = False
        reply.show(OutboundMessage(text="Hello from the grave"))
        await w.say("Dead")
        await w.clock.advance(120)
        assert w.texts == ["Hel"]


async def test_a_final_is_no_draft_where_the_lease_ran_out_before_the_draft_was_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the next process, it stays the message that it was."""
    may_call = Sender._may_call
    async with world(tmp_path, small(FULL, notifies=True, idempotent=False)) as w:

        def runs_out(sender: Sender, reply: Reply, step: Step) -> bool:
            may = may_call(sender, reply, step)
            w.leased = False  # between the first look and the last one before the call
            return may

        reply = await w.delivery.open("r1", dm(), None)
        await intended_early(w, reply)
        with monkeypatch.context() as patched:
            patched.setattr(Sender, "_may_call", runs_out)
            reply.show(OutboundMessage(status="working"))
            await w.clock.advance(5)
        assert (w.leased, w.calls("send")) == (False, [])
        w.leased = True
        w.channel.fail("send", OutcomeUnknown("read timed out"), applied=True)
        await w.say("Hello")
        await w.clock.settle()
        assert w.texts == ["Hello"]
        await w.restart()
        await w.drained()
        assert (w.texts, len(w.calls("send")), w.calls("delete")) == (["Hello"], 1, [])


async def test_finals_of_an_earlier_process_come_before_new_ones_in_their_order(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.delivery.disconnect("memory")
        for number in range(5):
            await w.say(f"old {number}", key=f"old{number}")
            await w.clock.advance(1)
        await w.restart(connect=False)
        await w.say("new", key="new")
        w.delivery.register(w.channel)
        await w.drained()
        assert w.texts == [*[f"old {number}" for number in range(5)], "new"]


async def test_an_answer_that_was_sent_and_not_recorded_is_found_in_a_crowd_whose_words_we_do_not_keep(
    tmp_path: Path,
) -> None:
    mode = MemoryMode(idempotent=False, adopts=False)
    async with world(tmp_path, mode, platform=ProbedChannel) as w:
        assert isinstance(w.channel, ProbedChannel)
        question = w.channel.write("1")
        for _ in range(50):
            w.channel.sightings.see("1", int(w.channel.write("1", seen=False).removeprefix("m")))
        w.channel.fail("send", OutcomeUnknown("killed before the answer came"), applied=True)
        await w.delivery.say("r1", dm(), question, OutboundMessage(text="Hello", final=True))
        await w.clock.settle()
        await w.restart()
        await w.drained()
        assert w.texts == ["Hello"]
        assert len(w.calls("send")) == 1


async def test_without_adoption_a_draft_of_an_earlier_process_stays_and_its_answer_does_not_wait_for_it(
    tmp_path: Path,
) -> None:
    mode = MemoryMode(idempotent=False, adopts=False)
    async with world(tmp_path, mode, platform=ProbedChannel) as w:
        assert isinstance(w.channel, ProbedChannel)
        question = w.channel.write("1")
        w.channel.fail("send", OutcomeUnknown("killed before the answer came"), applied=True)
        reply = await w.delivery.open("r1", dm(), question)
        reply.show(OutboundMessage(text="Hel"))
        await w.clock.settle()
        await w.restart()
        reply = await w.delivery.open("r1", dm(), question)
        reply.show(OutboundMessage(text="Hello"))
        await w.clock.settle()
        assert w.texts == ["Hel", "Hello"]


@pytest.mark.parametrize("mode", [FULL, SEARCHED, NO_EDIT], ids=["full", "searched", "no-edit"])
async def test_killed_between_pages_without_formatting_the_text_goes_on_where_it_was(
    tmp_path: Path, mode: MemoryMode
) -> None:
    """They are divided elsewhere than those that the platform refused."""
    slow = Rate(per_second=30, per_chat_per_second=0.2, per_group_per_minute=20)
    words = " ".join(f"*{number:02}*" for number in range(20))
    async with world(tmp_path, small(mode), slow) as w:
        w.channel.fail("send", Rejected("bad entity"))
        await w.say(words)
        await w.clock.advance(12)
        pages = list(w.texts)
        assert 0 < sum(map(len, pages)) < len(plain(words))
        await w.restart()
        await w.drained()
        assert w.texts[: len(pages)] == pages
        assert "".join(w.texts) == plain(words)
        assert await w.store.read(outbox.undelivered) == []
