"""The bus: committed before acked, once, in order, bounded; what was overheard is never stored."""

from __future__ import annotations

import asyncio
import gc
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from bot.access.admission import Decision, Verdict
from bot.inbound import bus as bus_module
from bot.inbound.bus import Inbound, MessageBus
from bot.store import inbox
from bot.store.errors import StoreUnavailable
from bot.store.rows import InboxState
from channels.message import Message, Unparsed
from tests.bot.core import FlakyStore
from tests.bot.store.samples import message
from tests.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from channels.message import InboundEvent


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FlakyStore]:
    opened = await FlakyStore.open(f"sqlite:///{tmp_path}/antler.db", clock=VirtualClock())
    assert isinstance(opened, FlakyStore)
    yield opened
    opened.down = False
    await opened.close()


def new_bus(store: FlakyStore) -> MessageBus:
    def decide(event: InboundEvent) -> Decision | None:
        to_others = isinstance(event, Message) and event.text == "to others"
        return None if to_others else Decision(Verdict.ADMIT, "dm")

    return MessageBus(store, decide)


async def take(bus: MessageBus, count: int) -> list[Inbound]:
    taken: list[Inbound] = []
    async with asyncio.timeout(5):
        async for inbound in bus.inbound():
            taken.append(inbound)
            if len(taken) == count:
                break
    return taken


def texts(taken: list[Inbound]) -> list[str]:
    return [inbound.event.text for inbound in taken if isinstance(inbound.event, Message)]


async def stored(store: FlakyStore) -> list[InboxState]:
    return [row.state for row in await store.read(lambda tx: inbox.load(tx, range(50)))]


async def test_events_are_committed_when_publish_returns_and_come_in_their_order(store: FlakyStore) -> None:
    bus = new_bus(store)
    await bus.publish([message(f"k{number}", text=str(number)) for number in range(5)])
    assert await stored(store) == [InboxState.NEW] * 5
    taken = await take(bus, 5)
    assert texts(taken) == ["0", "1", "2", "3", "4"]
    assert [inbound.id for inbound in taken] == sorted(inbound.id for inbound in taken)


async def test_a_known_key_makes_a_duplicate_also_within_one_batch(store: FlakyStore) -> None:
    bus = new_bus(store)
    await bus.publish([message("a", "b", text="1"), message("b", "c", text="again")])
    await bus.publish([message("c", text="and again"), message("d", text="2")])
    await bus.publish([message("a", text="another account's", account="other")])
    assert texts(await take(bus, 3)) == ["1", "2", "another account's"]


async def test_what_was_said_to_others_is_never_stored(store: FlakyStore) -> None:
    bus = new_bus(store)
    await bus.publish([message("a", text="to others"), message("b", text="to the bot")])
    assert texts(await take(bus, 1)) == ["to the bot"]
    assert len(await stored(store)) == 1


async def test_publish_fails_while_the_store_does_and_hands_nothing_over(store: FlakyStore) -> None:
    bus = new_bus(store)
    store.down = True
    with pytest.raises(StoreUnavailable):
        await bus.publish([message("a", text="first try")])
    store.down = False
    await bus.publish([message("a", text="second try")])
    assert texts(await take(bus, 1)) == ["second try"]


async def test_a_caller_that_gives_up_waiting_loses_nothing(store: FlakyStore) -> None:
    """A platform that waits a limited time sends the event again, and then it is a duplicate."""
    bus = new_bus(store)
    publishing = asyncio.create_task(bus.publish([message("a", text="slow commit")]))
    await asyncio.sleep(0)
    publishing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await publishing
    await bus.publish([message("a", text="slow commit")])
    assert texts(await take(bus, 1)) == ["slow commit"]


async def test_what_fails_after_its_caller_has_gone_is_logged_in_a_line(
    store: FlakyStore, caplog: pytest.LogCaptureFixture
) -> None:
    bus = new_bus(store)
    store.down = True
    publishing = asyncio.create_task(bus.publish([message("a", text="nobody waits")]))
    await asyncio.sleep(0)
    publishing.cancel()
    await asyncio.wait({publishing})
    await asyncio.sleep(0)
    gc.collect()  # asyncio tells of an error that nobody has seen when its task is collected
    assert [record.getMessage() for record in caplog.records] == [
        "events not stored, and their sender has gone: the disk is full"
    ]
    store.down = False
    await bus.publish([message("a", text="once more")])
    assert texts(await take(bus, 1)) == ["once more"]


async def test_replay_hands_over_what_nobody_decided_in_its_order(store: FlakyStore) -> None:
    await new_bus(store).publish([message(f"k{number}", text=str(number)) for number in range(4)])
    await store.write(lambda tx: inbox.settle(tx, [2], InboxState.DONE))
    bus = new_bus(store)
    await bus.replay()
    assert texts(await take(bus, 3)) == ["0", "2", "3"]


async def test_replay_sets_aside_what_this_version_cannot_read(store: FlakyStore) -> None:
    await new_bus(store).publish([message("a", text="1"), message("b", text="2")])
    broken = replace(message("a"), type="of another version")  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="serialized value"):
        await store.write(lambda tx: inbox.replace_event(tx, 1, broken))
    bus = new_bus(store)
    await bus.replay()
    assert texts(await take(bus, 1)) == ["2"]
    assert await stored(store) == [InboxState.DEAD, InboxState.NEW]


async def test_publish_waits_when_too_many_events_wait(store: FlakyStore) -> None:
    bus = new_bus(store)
    batch = [message(f"k{number}", text=str(number)) for number in range(bus_module.WAITING + 1)]
    publishing = asyncio.create_task(bus.publish(batch))
    taken = texts(await take(bus, 1))
    async with asyncio.timeout(5):
        await publishing
    taken += texts(await take(bus, bus_module.WAITING))
    assert taken == [said.text for said in batch]


async def test_handled_waits_for_the_one_who_takes(store: FlakyStore) -> None:
    bus = new_bus(store)
    await bus.publish([message("a")])
    handled = asyncio.create_task(bus.handled())
    events = bus.inbound()
    await anext(events)
    assert not handled.done()
    taking = asyncio.ensure_future(anext(events))
    async with asyncio.timeout(5):
        await handled
    taking.cancel()


async def test_what_cannot_be_read_is_logged_and_counted_and_kept_without_its_words(
    store: FlakyStore, caplog: pytest.LogCaptureFixture
) -> None:
    bus = new_bus(store)
    said = message("k1")
    raw = {
        "update_id": 7,
        "message": {"message_id": "m-4711", "text": "kanarienvogel", "kanarienvogel und mehr": 1, "n": [None, "vogel"]},
        "blocks": [{"type": "rich_text", "elements": [{"text": "kanarienvogel"}]}],
    }
    for key, text in (("k2", json.dumps(raw)), ("k3", "kanarienvogel, no JSON"), ("k4", "[" * 5000)):
        times: dict[str, Any] = {"sent_at": said.sent_at, "received_at": said.received_at}
        event = Unparsed(account=said.account, dedupe_keys=(key,), raw=text, error="text: what is this", **times)
        await bus.publish([event, event])
    rows = await store.read(lambda tx: inbox.load(tx, range(50)))
    assert [row.state for row in rows] == [InboxState.DEAD] * 3
    assert "vogel" not in str(rows)
    assert "m-4711" in rows[0].event
    assert "(13 characters)" in rows[0].event
    assert bus.unreadable == 3
    assert [record.getMessage() for record in caplog.records] == [
        f"event {row.id} of {said.account} cannot be read and is marked as dead" for row in rows
    ]
