"""Where nothing that was sent can change: what a killed process had shown counts, and a stream that it left goes on."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from bot.store import outbox
from channels.errors import MessageGone, Rejected, Temporary
from channels.message import Button, OutboundMessage
from tests.delivery_world import World, dm, world
from tests.memory_channel import FULL, RESUMED

if TYPE_CHECKING:
    from pathlib import Path

    from bot.delivery import Reply

SMALL = replace(RESUMED, max_unit=30)
PAGES = ("first page of the answer".ljust(30, "."), "second page of the answer".ljust(30, "."), "and the last one")
ANSWER = "".join(PAGES)
TEXT = "The quick brown fox jumps over the lazy dog while the sender still waits for the whole answer."
WAITS = ((Button(label="Run now", data="w1:0"), Button(label="Drop", data="w1:1")),)
MAY_I = ((Button(label="Yes", data="q7:0"), Button(label="No", data="q7:1")),)
TTL = 300.0


async def opened(w: World, question: str | None = "q1") -> Reply:
    return await w.delivery.open("r1", dm(), question)


async def begun(w: World) -> None:
    """A stream with the beginning of the answer."""
    reply = await opened(w)
    reply.show(OutboundMessage(text=TEXT[:60]))
    await w.clock.advance(2)
    assert w.texts == [TEXT[: len(w.texts[0])]]


async def killed_while_saying(w: World, step: int) -> None:
    """The final TEXT is said, and the process dies at that step of doing so."""
    tripwire = w.arm(step)
    saying = asyncio.ensure_future(w.say(TEXT))
    await w.clock.until(tripwire.tripped.wait())
    saying.cancel()
    with suppress(asyncio.CancelledError):
        await saying
    w.arm(0)


async def test_killed_between_the_pages_below_a_card_only_the_rest_is_said(tmp_path: Path) -> None:
    async with world(tmp_path, SMALL) as w:
        reply = await opened(w)
        reply.show(OutboundMessage(status="Queued", buttons=WAITS))
        await w.clock.settle()
        await w.say(ANSWER)
        await w.clock.settle()
        assert w.texts[:2] == ["Queued", PAGES[0]]
        w.channel.fail("send", *[Temporary("no route")] * 50)
        await w.clock.advance(5)
        await w.restart()
        w.channel._faults.clear()
        await w.drained()
        assert w.texts == ["Queued", *PAGES]


async def test_killed_after_the_end_of_a_stream_the_answer_is_there_once(tmp_path: Path) -> None:
    async with world(tmp_path, RESUMED) as w:
        await begun(w)
        await killed_while_saying(w, 5)  # 1 to 4 are around the commit of the final, 5 is before the record of the end
        (bubble,) = w.channel.chats["1"]
        assert (bubble.text, bubble.streaming) == (TEXT, False)
        await w.restart()
        await w.drained()
        assert w.texts == [TEXT]
        assert await w.store.read(outbox.undelivered) == []


async def test_a_stream_that_was_left_is_ended_with_the_answer(tmp_path: Path) -> None:
    async with world(tmp_path, RESUMED) as w:
        await begun(w)
        await w.restart()
        await w.say(TEXT)
        await w.drained()
        (bubble,) = w.channel.chats["1"]
        assert (bubble.text, bubble.streaming) == (TEXT, False)


async def test_a_stream_that_was_left_goes_on_with_whatever_is_said_now(tmp_path: Path) -> None:
    async with world(tmp_path, RESUMED) as w:
        await begun(w)
        await w.restart()
        reply = await opened(w)
        for text in ("", "Another", "Another beginning of it"):
            reply.show(OutboundMessage(text=text, status="Working"))
            await w.clock.advance(2)
        await w.say("Another beginning of it, and its end.")
        await w.drained()
        assert w.texts == ["Another beginning of it, and its end."]


async def test_where_a_stream_that_was_left_cannot_go_on_the_answer_comes_below(tmp_path: Path) -> None:
    async with world(tmp_path, RESUMED) as w:
        await begun(w)
        await w.restart()
        w.channel.fail("finish", Rejected("846605 invalid req_id"))
        await w.say(TEXT)
        await w.drained()
        assert w.texts[1:] == [TEXT]


async def test_a_stream_whose_time_is_over_is_left(tmp_path: Path) -> None:
    async with world(tmp_path, replace(RESUMED, stream_ttl=TTL)) as w:
        await begun(w)
        await w.restart(connect=False)
        await w.clock.advance(TTL)
        w.delivery.register(w.channel)
        await w.say(TEXT)
        await w.drained()
        assert w.texts[1:] == [TEXT]
        assert not w.calls("finish")


async def test_the_time_of_a_resumed_stream_began_with_it(tmp_path: Path) -> None:
    async with world(tmp_path, replace(RESUMED, stream_ttl=TTL)) as w:
        await begun(w)
        await w.clock.advance(TTL / 2)
        await w.restart()
        reply = await opened(w)
        for end in range(60, 90):
            reply.show(OutboundMessage(text=TEXT[:end]))
            await w.clock.advance(TTL / 50)
        assert len(w.calls("finish")) == 1
        assert not w.channel.chats["1"][0].streaming


async def test_a_stream_that_ended_with_a_question_is_not_taken_for_the_answer(tmp_path: Path) -> None:
    async with world(tmp_path, RESUMED) as w:
        await begun(w)
        reply = await opened(w)
        reply.show(OutboundMessage(text=TEXT + " May I?", buttons=MAY_I))
        await w.clock.advance(2)
        assert not w.channel.chats["1"][0].streaming
        await w.restart()
        await w.say("Done.")
        await w.drained()
        assert w.texts == [TEXT + " May I?", "Done."]


async def test_what_stands_below_a_stream_says_that_it_was_given_up(tmp_path: Path) -> None:
    async with world(tmp_path, SMALL) as w:
        reply = await opened(w)
        reply.show(OutboundMessage(text=PAGES[0][:10]))
        await w.clock.advance(2)
        w.channel.fail("finish", Rejected("it broke"))
        await w.say(ANSWER)
        await w.clock.settle()
        assert w.texts[1:] == list(PAGES[: len(w.texts) - 1]), "what broke is no page"
        await w.restart()
        await w.drained()
        assert w.texts[1:] == list(PAGES)


async def test_a_question_that_stands_is_not_asked_again_after_a_restart(tmp_path: Path) -> None:
    async with world(tmp_path, RESUMED) as w:
        reply = await opened(w)
        reply.show(OutboundMessage(status="Queued, 2nd in line", buttons=WAITS))
        await w.clock.settle()
        await w.restart()
        reply = await opened(w)
        reply.show(OutboundMessage(status="Queued, next in line", buttons=WAITS))
        await w.clock.advance(5)
        assert w.texts == ["Queued, 2nd in line"]
        assert reply.message_ids, "its buttons can still be pressed"
        reply.show(OutboundMessage(text="May I?", buttons=MAY_I))
        await w.clock.advance(5)
        assert w.texts == ["Queued, 2nd in line", "May I?"]
        await w.say("Done.")
        await w.drained()
        assert w.texts == ["Queued, 2nd in line", "May I?", "Done."]


async def test_a_message_gone_once_in_each_of_two_processes_ends_as_the_answer(tmp_path: Path) -> None:
    """The platform knows the key of the second try from the first process, and gives back what that had sent."""
    async with world(tmp_path, FULL) as w:
        for text in ("one", "two"):
            reply = await opened(w)
            reply.show(OutboundMessage(text=text))
            await w.clock.advance(5)
            w.channel.fail("edit", MessageGone("deleted"))
            reply.show(OutboundMessage(text=f"{text} and more"))
            await w.clock.advance(5)
            await w.restart()
        await w.say(TEXT)
        await w.drained()
        assert w.texts[-1] == TEXT
