"""An account gets another channel while the process runs: what is under way ends, goes on, or is looked for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from bot.delivery.service import LAST_CALLS
from channels.message import OutboundMessage
from tests.delivery_world import dm, world
from tests.memory_channel import FULL, RESUMED, MemoryMode

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "The quick brown fox jumps over the lazy dog while the sender still waits for the whole answer."
FINDABLE = MemoryMode(idempotent=False)


async def test_calls_under_way_are_waited_for(tmp_path: Path) -> None:
    async with world(tmp_path, FINDABLE) as w:
        gate = w.channel.hold("send")
        await w.say(TEXT)
        await w.clock.settle()
        going = asyncio.ensure_future(w.delivery.reconnect(w.channel))
        await w.clock.advance(LAST_CALLS / 2)
        assert not going.done()
        gate.set()
        await w.clock.until(going)
        await w.drained()
        assert (w.texts, len(w.calls("send")), len(w.calls("find"))) == ([TEXT], 1, 0)


async def test_a_call_that_does_not_end_is_looked_for_before_it_is_repeated(tmp_path: Path) -> None:
    async with world(tmp_path, FINDABLE) as w:
        gate = w.channel.hold("send")
        await w.say(TEXT)
        await w.clock.settle()
        going = asyncio.ensure_future(w.delivery.reconnect(w.channel))
        await w.clock.advance(LAST_CALLS + 1)
        await w.clock.until(going)
        gate.set()
        await w.drained()
        assert (w.texts, w.calls("find") != []) == ([TEXT], True)


@pytest.mark.parametrize("mode", [FULL, RESUMED])
async def test_a_growing_answer_goes_on_in_its_message(tmp_path: Path, mode: MemoryMode) -> None:
    async with world(tmp_path, mode) as w:
        reply = await w.delivery.open("r1", dm(), "q1")
        reply.show(OutboundMessage(text=TEXT[:60]))
        await w.clock.advance(2)
        (before,) = w.channel.chats["1"]
        await w.clock.until(asyncio.ensure_future(w.delivery.reconnect(w.channel)))
        reply.show(OutboundMessage(text=TEXT[:80]))
        await w.clock.advance(2)
        await w.say(TEXT)
        await w.drained()
        (after,) = w.channel.chats["1"]
        assert (after.message_id, after.text, after.streaming) == (before.message_id, TEXT, False)


async def test_what_is_said_while_there_is_no_channel_waits_for_one(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r2", dm(), None)
        reply.show(OutboundMessage(text="A draft of something else"))
        await w.clock.advance(2)
        await w.delivery.disconnect("memory")
        await w.say(TEXT)
        await w.clock.advance(600)
        assert w.texts == ["A draft of something else"]
        await w.delivery.reconnect(w.channel)
        await w.drained()
        assert w.texts == ["A draft of something else", TEXT]
