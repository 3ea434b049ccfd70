"""The inbox takes each event once, whatever a stranger writes into it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import func, select

from bot.store import Store, inbox
from bot.store.inbox import ADD_EVENTS, AlreadyAssigned
from bot.store.rows import InboxState
from bot.store.tables import inbox_keys
from channels.message import INBOUND_EVENT, ChatMigrated, MessageEdited, Unparsed
from tests.bot.store.samples import LATER, NOW, message, pruned

if TYPE_CHECKING:
    from channels.message import InboundEvent


async def test_events_get_ids_in_the_order_of_arrival(store: Store) -> None:
    events = [message(f"u:{number}", text=str(number)) for number in range(2500)]
    rows = await store.add(ADD_EVENTS, events)

    ids = [row.id for row in rows if row is not None]
    assert len(ids) == 2500
    assert ids == sorted(set(ids))
    stored = await store.read(inbox.unsettled)
    assert [INBOUND_EVENT.validate_json(row.event) for row in stored] == events
    assert stored == rows
    assert stored[0].received_at == NOW


async def test_a_known_key_makes_a_duplicate(store: Store) -> None:
    first = await store.add(ADD_EVENTS, [message("e:1", "m:1")])
    again = await store.add(ADD_EVENTS, [message("m:1"), message("m:2")])

    assert first[0] is not None
    assert again[0] is None
    assert again[1] is not None


async def test_duplicates_inside_one_batch(store: Store) -> None:
    rows = await store.add(ADD_EVENTS, [message("a"), message("b"), message("a", "c"), message("c"), message("d", "d")])

    assert [row is not None for row in rows] == [True, True, False, False, True]


async def test_a_duplicate_teaches_its_other_keys(store: Store) -> None:
    (first,) = await store.add(ADD_EVENTS, [message("e:1")])
    assert await store.add(ADD_EVENTS, [message("e:1", "m:1")]) == [None]
    assert await store.add(ADD_EVENTS, [message("m:1")]) == [None]

    assert first is not None
    keys = await store.read(lambda tx: set(tx.scalars(select(inbox_keys.c.inbox_id))))
    assert keys == {first.id}


async def test_keys_are_the_accounts_own(store: Store) -> None:
    rows = await store.add(ADD_EVENTS, [message("u:1", account="a"), message("u:1", account="b")])

    assert None not in rows


async def test_the_same_event_from_many_callers_at_once(store: Store) -> None:
    answers = await asyncio.gather(*(store.add(ADD_EVENTS, [message("u:1"), message(f"o:{n}")]) for n in range(50)))

    assert sum(first is not None for first, _ in answers) == 1
    assert all(other is not None for _, other in answers)


async def test_ten_thousand_events_at_once(store: Store) -> None:
    async with asyncio.timeout(60):
        answers = await asyncio.gather(*(store.add(ADD_EVENTS, [message(f"u:{n % 9000}")]) for n in range(10_000)))

    ids = [row.id for (row,) in answers if row is not None]
    assert len(ids) == 9000
    assert ids == sorted(ids)


async def test_what_cannot_be_parsed_is_kept_dead(store: Store) -> None:
    event = Unparsed(
        account="telegram", dedupe_keys=("u:1",), sent_at=NOW, received_at=NOW, raw='{"x": "\\u0000"}', error="no x\0"
    )
    (row,) = await store.add(ADD_EVENTS, [event])

    assert row is not None
    assert row.state is InboxState.DEAD
    assert await store.read(inbox.unsettled) == []


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("nul \0 nul", "nul \0 nul"),
        ("half \ud83d a", "half \ufffd a"),
        ("\ude00\ud83d \U0001f600", "\ufffd\ufffd \U0001f600"),
        ("\u202eright to left\u200b", "\u202eright to left\u200b"),
        ("", ""),
        ("字" * 100_000, "字" * 100_000),
    ],
)
async def test_any_text_survives(store: Store, text: str, kept: str) -> None:
    (row,) = await store.add(ADD_EVENTS, [message(f"u:{text[:10]}", text=text, chat=f"7{text[:10]}")])

    assert row is not None
    (loaded,) = await store.read(lambda tx: inbox.load(tx, [row.id]))
    assert loaded == row
    event = INBOUND_EVENT.validate_json(loaded.event)
    assert event.type == "message"
    assert event.text == kept
    assert await store.add(ADD_EVENTS, [message(f"u:{text[:10]}", text=text)]) == [None]


async def test_an_event_belongs_to_one_run(store: Store) -> None:
    rows = await store.add(ADD_EVENTS, [message("a"), message("b")])
    ids = [row.id for row in rows if row is not None]
    await store.write(lambda tx: inbox.assign(tx, ids[:1], "run-1"))
    await store.write(lambda tx: inbox.assign(tx, ids[:1], "run-1"))

    with pytest.raises(AlreadyAssigned):
        await store.write(lambda tx: inbox.assign(tx, ids, "run-2"))
    assert [row.id for row in await store.read(inbox.unsettled)] == ids[1:]

    await store.write(lambda tx: inbox.settle(tx, ids, InboxState.DONE, "answered"))
    with pytest.raises(AlreadyAssigned):
        await store.write(lambda tx: inbox.assign(tx, ids[1:], "run-1"))


async def test_an_edit_replaces_the_newest_state(store: Store) -> None:
    original = message("u:1", number="77")
    edit = MessageEdited(
        account="telegram", dedupe_keys=("u:2",), sent_at=NOW, received_at=NOW, message=message("u:2", number="77")
    )
    migrated = ChatMigrated(
        account="telegram", dedupe_keys=("u:3",), sent_at=NOW, received_at=NOW, old_chat="1", new_chat="2"
    )
    events: list[InboundEvent] = [original, edit, migrated]
    rows = [row for row in await store.add(ADD_EVENTS, events) if row is not None]
    changed = message("u:1", text="changed", number="77")
    await store.write(lambda tx: inbox.replace_event(tx, rows[0].id, changed))
    loaded = await store.read(lambda tx: inbox.load(tx, [*(row.id for row in rows), 999_999]))
    assert INBOUND_EVENT.validate_json(loaded[0].event) == changed
    assert loaded[1:] == rows[1:]


async def test_the_newest_messages_of_an_account(store: Store) -> None:
    for number in range(5):
        await store.add(ADD_EVENTS, [message(f"u:{number}", number=str(number), chat=str(number % 2))])
    await store.add(ADD_EVENTS, [message("u:9", number="9", account="another")])
    assert await store.read(lambda tx: inbox.newest_ids(tx, "telegram", 2)) == [("0", "4"), ("1", "3")]


async def test_prune_forgets_only_what_is_settled_and_never_reuses_an_id(store: Store) -> None:
    rows = await store.add(ADD_EVENTS, [message("a"), message("b"), message("c")])
    ids = [row.id for row in rows if row is not None]
    await store.write(lambda tx: inbox.settle(tx, ids[1:], InboxState.DONE))

    assert await pruned(store, inbox, NOW) == 0
    assert await pruned(store, inbox, NOW + timedelta(seconds=1)) == 2
    assert await store.read(lambda tx: tx.scalar(select(func.count()).select_from(inbox_keys))) == 1
    (again,) = await store.add(ADD_EVENTS, [message("c")])
    assert again is not None
    assert again.id > max(ids)
    assert await pruned(store, inbox, LATER) == 0
