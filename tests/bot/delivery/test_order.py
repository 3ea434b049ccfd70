"""Answers stand in the order of their questions: the first message of a reply decides its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from channels.errors import OutcomeUnknown, RateLimited, Temporary
from channels.message import Button, OutboundMessage
from tests.delivery_world import dm, world
from tests.memory_channel import SEARCHED

if TYPE_CHECKING:
    from pathlib import Path

    from channels.errors import ChannelError

BUTTONS = ((Button(label="Drop", data="d"),),)


async def test_a_reply_that_is_expected_takes_its_place(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.delivery.expect("a", dm(), None)
        later = await w.delivery.open("b", dm(), None)
        later.show(OutboundMessage(text="queued", buttons=BUTTONS))
        elsewhere = await w.delivery.open("c", dm("2"), None)
        elsewhere.show(OutboundMessage(text="not concerned"))
        await w.clock.settle()
        assert w.texts == []
        assert w.channel.texts("2") == ["not concerned"]
        first = await w.delivery.open("a", dm(), None)
        first.show(OutboundMessage(text="working"))
        await w.clock.settle()
        assert w.texts == ["working", "queued"]


async def test_who_shows_nothing_does_not_hold_up_the_others_for_long(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.delivery.expect("a", dm(), None)
        later = await w.delivery.open("b", dm(), None)
        later.show(OutboundMessage(text="queued"))
        await w.clock.advance(3)
        assert w.texts == ["queued"]
        await w.say("settled", key="a")
        await w.drained()
        assert w.texts == ["queued", "settled"]


async def test_an_answer_waits_for_nobody(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.delivery.expect("a", dm(), None)
        await w.say("status", key="b")
        await w.clock.settle()
        assert w.texts == ["status"]


@pytest.mark.parametrize(
    "error",
    [Temporary("refused"), RateLimited("slow down", 3.0), OutcomeUnknown("502")],
    ids=lambda e: type(e).__name__,
)
async def test_a_first_message_that_fails_keeps_its_place(tmp_path: Path, error: ChannelError) -> None:
    async with world(tmp_path, SEARCHED) as w:
        w.channel.fail("send", error)
        for key in ("a", "b", "c"):
            reply = await w.delivery.open(key, dm(), None)
            reply.show(OutboundMessage(text=key, buttons=BUTTONS if key != "a" else ()))
        await w.clock.advance(20)
        assert w.texts == ["a", "b", "c"]
