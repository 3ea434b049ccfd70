"""The lead is lost while something is being sent: what the next leader could not know of does not stay in the chat."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from sqlalchemy.engine import make_url

from bot.clock import SystemClock
from bot.delivery import Delivery
from bot.redaction import Redactor
from bot.store import Store, outbox, sql, writer
from bot.store.leadership import Lead
from channels.base import ChannelPorts, Route
from channels.capabilities import Rate
from channels.errors import Temporary
from channels.message import OutboundMessage
from tests.delivery_world import dm
from tests.memory_channel import MemoryChannel, MemoryMode
from tests.simulators.relay import Relay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from tests.simulators.postgres import PostgresServer

pytestmark = pytest.mark.postgres
TEXT = "The quick brown fox jumps over the lazy dog."
UNHURRIED = Rate(per_second=1e6, per_chat_per_second=1e6, per_group_per_minute=1e6)
UNADOPTED = MemoryMode(idempotent=False, adopts=False)
"""As Telegram is by default: a final is looked for after a crash, a draft is not."""


def platform(mode: MemoryMode) -> MemoryChannel:
    async def nothing(events: Sequence[object]) -> None:
        return None

    log = logging.getLogger("channels")
    ports = ChannelPorts(publish=nothing, clock=SystemClock(), route=lambda _: Route(), log=log)
    return MemoryChannel("memory", ports, mode, UNHURRIED)


@asynccontextmanager
async def delivering(store: Store, channel: MemoryChannel) -> AsyncIterator[Delivery]:
    delivery = Delivery(store, SystemClock(), Redactor([]), store.lease_valid)
    delivery.register(channel)
    await delivery.start()
    try:
        yield delivery
    finally:
        await delivery.close(0)
        await store.close()


@asynccontextmanager
async def leader(url: str, server: PostgresServer, channel: MemoryChannel) -> AsyncIterator[tuple[Delivery, Relay]]:
    """Its connections to the database go through the relay."""
    async with Relay(server.socket) as relay:
        there = make_url(url).set(host="127.0.0.1", port=relay.port, query={})
        store = await Store.open(there.render_as_string(hide_password=False), clock=SystemClock())
        async with delivering(store, channel) as delivery:
            yield delivery, relay
            relay.heal()


async def successor(url: str) -> Store:
    lead = await Lead.connect(sql.parse(url))
    async with asyncio.timeout(20):
        while not await lead.attempt():
            await lead.pause()
    return await Store.open(url, clock=SystemClock(), lead=lead)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("not within 10 s")


def called(channel: MemoryChannel, method: str) -> int:
    return sum(call.method == method for call in channel.calls)


async def resumed(url: str, channel: MemoryChannel, *recorded: outbox.Sent) -> None:
    """The next process leads, and answers: first with a draft, as a run that goes on does."""
    store = await successor(url)
    if recorded:
        await store.add(outbox.RECORD_SENT, recorded)
    async with delivering(store, channel) as delivery:
        reply = await delivery.open("r1", dm(), None)
        if not reply.final:
            reply.show(OutboundMessage(text=TEXT))
            await until(lambda: reply.visible)
            await delivery.say("r1", dm(), None, OutboundMessage(text=TEXT, final=True))
        async with asyncio.timeout(10):
            await delivery.drained()


@pytest.mark.parametrize(
    "recorded", [(), (outbox.Sent(reply_key="r1", part=0, message_id="m1", rev=0),)], ids=["unknown", "committed"]
)
async def test_a_draft_that_was_sent_when_the_database_was_cut_off_is_not_said_again_below(
    postgres: PostgresServer, recorded: tuple[outbox.Sent, ...]
) -> None:
    """committed: its record had been taken by the server, and only the answer to that was lost."""
    url, channel = postgres.database(), platform(UNADOPTED)
    async with leader(url, postgres, channel) as (delivery, relay):
        gate = channel.hold("send")
        (await delivery.open("r1", dm(), None)).show(OutboundMessage(text=TEXT))
        await until(lambda: called(channel, "send") == 1)
        relay.cut()
        gate.set()
        await until(lambda: called(channel, "delete") == 1)
        assert channel.texts("1") == []
        await resumed(url, channel, *recorded)
        assert channel.texts("1") == [TEXT]


async def test_a_draft_of_a_leader_whose_database_fell_silent_is_taken_back_when_its_time_is_over(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LEASE_SECONDS", 2)
    url, channel = postgres.database(), platform(UNADOPTED)
    async with leader(url, postgres, channel) as (delivery, relay):
        gate = channel.hold("send")
        (await delivery.open("r1", dm(), None)).show(OutboundMessage(text=TEXT))
        await until(lambda: called(channel, "send") == 1)
        relay.fall_silent()
        gate.set()
        await until(lambda: called(channel, "delete") == 1)
        assert channel.texts("1") == []


async def test_a_final_that_was_sent_when_the_database_was_cut_off_is_found_by_the_next_leader(
    postgres: PostgresServer,
) -> None:
    url, channel = postgres.database(), platform(UNADOPTED)
    async with leader(url, postgres, channel) as (delivery, relay):
        gate = channel.hold("send")
        await delivery.say("r1", dm(), None, OutboundMessage(text=TEXT, final=True))
        await until(lambda: called(channel, "send") == 1)
        relay.cut()
        gate.set()
        await until(lambda: channel.texts("1") == [TEXT])
        await resumed(url, channel)
        assert (channel.texts("1"), called(channel, "delete"), called(channel, "send")) == ([TEXT], 0, 1)


@pytest.mark.parametrize("mode", [MemoryMode(), MemoryMode(idempotent=False)], ids=["repeatable", "adopted"])
async def test_where_the_next_leader_finds_a_draft_it_stays(postgres: PostgresServer, mode: MemoryMode) -> None:
    url, channel = postgres.database(), platform(mode)
    async with leader(url, postgres, channel) as (delivery, relay):
        gate = channel.hold("send")
        (await delivery.open("r1", dm(), None)).show(OutboundMessage(text=TEXT))
        await until(lambda: called(channel, "send") == 1)
        relay.cut()
        gate.set()
        await resumed(url, channel)
        assert (channel.texts("1"), called(channel, "delete")) == ([TEXT], 0)


async def test_the_draft_of_a_leader_that_goes_on_comes_again(postgres: PostgresServer) -> None:
    url, channel = postgres.database(), platform(UNADOPTED)
    async with leader(url, postgres, channel) as (delivery, relay):
        gate = channel.hold("send")
        (await delivery.open("r1", dm(), None)).show(OutboundMessage(text=TEXT))
        await until(lambda: called(channel, "send") == 1)
        relay.cut()
        gate.set()
        await until(lambda: called(channel, "delete") == 1)
        relay.heal()
        await until(lambda: channel.texts("1") == [TEXT])
        await delivery.say("r1", dm(), None, OutboundMessage(text=TEXT, final=True))
        async with asyncio.timeout(10):
            await delivery.drained()
        assert channel.texts("1") == [TEXT]


async def test_a_draft_that_cannot_be_taken_back_is_recorded_once_the_leader_goes_on(postgres: PostgresServer) -> None:
    url, channel = postgres.database(), platform(UNADOPTED)
    channel.fail("delete", Temporary("the platform is away"))
    async with leader(url, postgres, channel) as (delivery, relay):
        gate = channel.hold("send")
        reply = await delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text=TEXT))
        await until(lambda: called(channel, "send") == 1)
        relay.cut()
        gate.set()
        await until(lambda: called(channel, "delete") == 1)
        relay.heal()
        await delivery.say("r1", dm(), None, OutboundMessage(text=TEXT, final=True))
        async with asyncio.timeout(10):
            await delivery.drained()
        assert channel.texts("1") == [TEXT]
    store = await successor(url)
    assert await store.read(outbox.undelivered) == []
    await store.close()
