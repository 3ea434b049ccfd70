"""The in-memory channel: what it remembers for a person to see, and how it fails on demand."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.base import ChannelPorts, Probe, Route
from channels.errors import MessageGone, OutcomeUnknown, Rejected, Temporary
from channels.message import Address, OutboundMessage
from tests.clock import VirtualClock
from tests.memory_channel import APPEND_ONLY, FULL, NO_EDIT, MemoryChannel, MemoryMode, MemoryPart

if TYPE_CHECKING:
    from collections.abc import Sequence

DM = Address(account="memory", chat="1")


async def refuse(events: Sequence[object]) -> None:
    raise Temporary("the database is full")


def make(mode: MemoryMode = FULL) -> MemoryChannel:
    ports = ChannelPorts(publish=refuse, clock=VirtualClock(), route=lambda url: Route())
    return MemoryChannel("memory", ports, mode)


def part(text: str) -> MemoryPart:
    return MemoryPart(0, text)


async def test_a_bubble_remembers_all_that_it_showed() -> None:
    channel = make()
    message_id = await channel.send(DM, part("a"), "k", "q1")
    for text in ("ab", "ab", "abc"):
        await channel.edit(DM, message_id, part(text))
    (bubble,) = channel.chats["1"]
    assert list(bubble.history) == ["a", "ab", "abc"]
    assert bubble.reply_to == "q1"
    assert channel.texts("1") == ["abc"]
    assert [call.method for call in channel.calls] == ["send", "edit", "edit", "edit"]


async def test_faults_come_in_order_and_may_hide_a_success() -> None:
    channel = make(MemoryMode(idempotent=False))
    channel.fail("send", Temporary("first"))
    channel.fail("send", OutcomeUnknown("second"), applied=True)
    with pytest.raises(Temporary):
        await channel.send(DM, part("a"), "k")
    assert channel.texts("1") == []
    with pytest.raises(OutcomeUnknown):
        await channel.send(DM, part("a"), "k")
    assert channel.texts("1") == ["a"]
    assert await channel.find(DM, part("b"), Probe(idem_key="k", after=None)) == "m1"
    assert channel.texts("1") == ["b"]


async def test_held_calls_have_no_effect_before_they_are_let_go() -> None:
    channel = make()
    gate = channel.hold("send")
    sending = asyncio.create_task(channel.send(DM, part("a"), "k"))
    await asyncio.sleep(0)
    assert channel.texts("1") == []
    gate.set()
    assert await sending == "m1"


async def test_what_a_mode_cannot_do_is_refused() -> None:
    channel = make(NO_EDIT)
    message_id = await channel.send(DM, part("a"), "k")
    with pytest.raises(Rejected):
        await channel.edit(DM, message_id, part("b"))
    with pytest.raises(Rejected):
        await channel.preview(DM, part("b"), "k")


async def test_a_stream_cannot_take_anything_back() -> None:
    channel = make(APPEND_ONLY)
    stream = await channel.open_stream(DM, "k", None)
    await stream.show(OutboundMessage(text="Hello"))
    with pytest.raises(Rejected):
        await stream.show(OutboundMessage(text="Help"))
    await stream.finish(OutboundMessage(text="Hello!", final=True))
    with pytest.raises(MessageGone):
        await stream.show(OutboundMessage(text="Hello!!"))


async def test_a_stream_ends_by_itself() -> None:
    clock = VirtualClock()
    ports = ChannelPorts(publish=refuse, clock=clock, route=lambda url: Route())
    channel = MemoryChannel("memory", ports, replace(APPEND_ONLY, stream_ttl=60.0))
    stream = await channel.open_stream(DM, "k", None)
    await clock.advance(60)
    with pytest.raises(MessageGone):
        await stream.show(OutboundMessage(text="Hello"))


async def test_what_the_gateway_does_not_commit_is_told_to_the_sender() -> None:
    with pytest.raises(Temporary):
        await make().receive()


async def test_a_message_deleted_by_a_person_is_gone() -> None:
    channel = make()
    message_id = await channel.send(DM, part("a"), "k")
    channel.remove("1", message_id)
    with pytest.raises(MessageGone):
        await channel.edit(DM, message_id, part("b"))


@given(st.text(alphabet="ab \n", max_size=60), st.integers(1, 20), st.booleans())
def test_layout_loses_nothing_and_keeps_to_the_limit(text: str, limit: int, append_only: bool) -> None:
    channel = make(MemoryMode(max_unit=limit, append_only=append_only, edits=not append_only))
    parts = [p for p in channel.layout(OutboundMessage(text=text)) if isinstance(p, MemoryPart)]
    assert "".join(p.text for p in parts) == text
    assert all(len(p.text) <= limit for p in parts)
