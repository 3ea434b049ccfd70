"""Where an answer can only be given to a certain message, each reply is told which; elsewhere a DM quotes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from channels.errors import MessageGone
from channels.message import Button, OutboundMessage
from tests.delivery_world import dm, world
from tests.memory_channel import FULL, REPLIES, MemoryMode

if TYPE_CHECKING:
    from pathlib import Path

    from tests.delivery_world import World

STREAMS = MemoryMode(edits=False, append_only=True, idempotent=False, findable=False, replies=True, stream_ttl=10)


def answered(w: World) -> list[str | None]:
    return [bubble.reply_to for bubble in w.channel.chats["1"]]


@pytest.mark.parametrize(("mode", "told"), [(FULL, None), (REPLIES, "q1")])
async def test_a_dm_is_told_what_it_answers_only_where_that_is_needed(
    tmp_path: Path, mode: MemoryMode, told: str | None
) -> None:
    async with world(tmp_path, mode) as w:
        await w.delivery.say("r1", dm(), "q1", OutboundMessage(text="done", final=True))
        await w.drained()
        assert answered(w) == [told]


async def test_only_the_first_part_answers(tmp_path: Path) -> None:
    async with world(tmp_path, MemoryMode(replies=True, max_unit=200)) as w:
        await w.delivery.say("r1", dm(), "q1", OutboundMessage(text="word\n" * 100, final=True))
        await w.drained()
        first, *others = answered(w)
        assert (first, set(others)) == ("q1", {None})


async def test_after_a_crash_the_answer_is_still_given_to_its_message(tmp_path: Path) -> None:
    async with world(tmp_path, REPLIES) as w:
        gate = w.channel.hold("send")
        await w.delivery.say("r1", dm(), "q1", OutboundMessage(text="done", final=True))
        await w.restart()
        gate.set()
        await w.drained()
        assert answered(w) == ["q1"]


async def test_who_changes_an_older_reply_need_not_know_what_it_answered(tmp_path: Path) -> None:
    async with world(tmp_path, MemoryMode(replies=True, idempotent=False)) as w:
        await w.delivery.say("r1", dm(), "q1", OutboundMessage(text="choose", final=True))
        await w.drained()
        await w.restart()
        (bubble,) = w.channel.chats["1"]
        w.channel.remove("1", bubble.message_id)
        await w.delivery.say("r1", dm(), None, OutboundMessage(text="chosen", final=True))
        await w.drained()
        assert answered(w) == ["q1"]


async def test_a_message_that_is_gone_is_not_answered_but_the_answer_comes(tmp_path: Path) -> None:
    async with world(tmp_path, REPLIES) as w:
        w.channel.fail("send", MessageGone("no such message"))
        await w.delivery.say("r1", dm(), "q1", OutboundMessage(text="done", final=True))
        await w.drained()
        assert (w.texts, answered(w)) == (["done"], [None])


async def test_each_stream_of_a_reply_answers(tmp_path: Path) -> None:
    async with world(tmp_path, STREAMS) as w:
        reply = await w.delivery.open("r1", dm(), "q1")
        for words in range(1, 30):  # longer than one stream may stay open
            reply.show(OutboundMessage(text="word " * words))
            await w.clock.advance(0.5)
        opened = len(w.calls("open_stream"))
        assert opened > 1
        await w.delivery.say("r1", dm(), "q1", OutboundMessage(text="word " * 30, final=True))
        await w.drained()
        assert answered(w)[:opened] == ["q1"] * opened


@pytest.mark.parametrize("crash", [False, True])
async def test_a_quick_answer_below_a_notice_that_stays_answers_its_message(tmp_path: Path, crash: bool) -> None:
    async with world(tmp_path, STREAMS) as w:
        reply = await w.delivery.open("r1", dm(), "q1")
        reply.show(OutboundMessage(status="queued", buttons=((Button(label="Drop", data="p:0"),),)))
        await w.clock.advance(2)
        if crash:
            await w.restart()
        await w.delivery.say("r1", dm(), "q1", OutboundMessage(text="word\n" * 2000, final=True))
        await w.drained()
        assert w.texts[0] == "queued"
        assert len(w.texts) > 2
        assert answered(w)[:3] == ["q1", "q1", None]
