"""What people put off, as the database keeps it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from bot.store import Store, accounts, conversations, inbox, schedules
from bot.store.rows import InboxState
from bot.store.schedules import ScheduleRow, ScheduleState
from channels.message import Address, ScheduleDue, Sender
from tests.bot.store.samples import DM, LATER, NOW, OWNER

HOUR = timedelta(hours=1)
GROUP = Address(account="telegram", chat="-5", topic="9", kind="group")


def row(schedule_id: str, *, person: str = OWNER, address: Address = DM, minutes: int = 0) -> ScheduleRow:
    return ScheduleRow(
        id=schedule_id,
        address=address,
        conversation=OWNER if address == DM else "telegram:-5/9",
        person=person,
        name="Ann \ud800",
        language="en",
        text="stretch",
        kind="cron",
        spec="0 9 * * *",
        timezone="Europe/Berlin",
        next_at=LATER + timedelta(minutes=minutes),
        created_at=NOW,
    )


async def make(store: Store, *rows: ScheduleRow) -> None:
    for each in rows:
        await store.write(lambda tx, each=each: schedules.create(tx, each))  # type: ignore[misc]


async def test_one_is_made_once_and_stays_as_it_is(store: Store) -> None:
    made = await store.write(lambda tx: schedules.create(tx, row("s1")))
    assert replace(made, name="Ann \ud800") == row("s1")
    again = await store.write(lambda tx: schedules.create(tx, replace(row("s1"), text="other", next_at=NOW)))
    assert again == made == await store.read(lambda tx: schedules.load(tx, "s1"))
    assert await store.read(lambda tx: schedules.load(tx, "s2")) is None


async def test_the_first_that_is_due_of_these_accounts(store: Store) -> None:
    other = Address(account="slack", chat="7")
    await make(store, row("late", minutes=5), row("b", minutes=1), row("a", minutes=1), row("slack", address=other))
    first = await store.read(lambda tx: schedules.first_due(tx, ["telegram"]))
    assert first is not None
    assert first.id == "a"
    assert await store.read(lambda tx: schedules.first_due(tx, ["feishu"])) is None
    assert await store.read(lambda tx: schedules.first_due(tx, [])) is None


async def test_a_firing_is_taken_once(store: Store) -> None:
    await make(store, row("s1"))
    upcoming = LATER + HOUR
    taken = await asyncio.gather(
        *(store.write(lambda tx: schedules.fired(tx, "s1", LATER, upcoming, LATER)) for _ in range(3))
    )
    assert sorted(taken) == [False, False, True]
    known = await store.read(lambda tx: schedules.load(tx, "s1"))
    assert known is not None
    assert (known.next_at, known.last_fired_at, known.state) == (upcoming, LATER, ScheduleState.ACTIVE)
    assert await store.write(lambda tx: schedules.fired(tx, "s1", upcoming, None, upcoming))
    known = await store.read(lambda tx: schedules.load(tx, "s1"))
    assert known is not None
    assert (known.next_at, known.state) == (upcoming, ScheduleState.DONE)
    assert await store.read(lambda tx: schedules.first_due(tx, ["telegram"])) is None


async def test_what_was_ended_does_not_fire(store: Store) -> None:
    await make(store, row("s1"))
    assert await store.write(lambda tx: schedules.end(tx, "s1", ScheduleState.CANCELLED, NOW))
    assert not await store.write(lambda tx: schedules.end(tx, "s1", ScheduleState.REVOKED, NOW))
    assert not await store.write(lambda tx: schedules.fired(tx, "s1", LATER, None, LATER))
    known = await store.read(lambda tx: schedules.load(tx, "s1"))
    assert known is not None
    assert known.state is ScheduleState.CANCELLED


async def test_a_chat_lists_its_own_and_a_person_theirs(store: Store) -> None:
    elsewhere = replace(GROUP, topic=None)
    bobs = row("bob", person="telegram:8", address=elsewhere, minutes=3)
    await make(store, row("dm"), row("ann", address=GROUP, minutes=5), bobs)
    listed = await store.read(lambda tx: schedules.in_chat(tx, GROUP))
    assert [each.id for each in listed] == ["bob", "ann"]
    assert listed[1].address == GROUP
    assert [each.id for each in await store.read(lambda tx: schedules.in_chat(tx, GROUP, OWNER))] == ["ann"]
    assert await store.read(lambda tx: schedules.counts(tx, OWNER, GROUP)) == (2, 2)
    await store.write(lambda tx: schedules.end(tx, "ann", ScheduleState.CANCELLED, NOW))
    assert await store.read(lambda tx: schedules.counts(tx, OWNER, GROUP)) == (1, 1)


async def test_what_ended_long_ago_is_forgotten(store: Store) -> None:
    await make(store, row("s1"), row("s2"), row("s3"))
    await store.write(lambda tx: schedules.end(tx, "s1", ScheduleState.CANCELLED, NOW))
    await store.write(lambda tx: schedules.end(tx, "s2", ScheduleState.CANCELLED, NOW + HOUR))
    assert await store.write(lambda tx: schedules.prune(tx, NOW + timedelta(minutes=1))) == 1
    assert await store.write(lambda tx: schedules.prune(tx, NOW + timedelta(minutes=1))) == 0
    assert await store.read(lambda tx: schedules.load(tx, "s1")) is None
    assert await store.read(lambda tx: schedules.load(tx, "s3")) is not None


def due(account: str, chat: str) -> ScheduleDue:
    return ScheduleDue(
        account=account,
        dedupe_keys=("s:s1:then",),
        sent_at=NOW,
        received_at=NOW,
        schedule_id="s1",
        address=Address(account=account, chat=chat, kind="group"),
        sender=Sender(id="7", display_name="Ann"),
        text="stretch",
        language="en",
        timezone="UTC",
    )


async def test_it_moves_with_its_chat_and_its_account(store: Store) -> None:
    await store.write(lambda tx: accounts.bind(tx, "telegram", "telegram", "1", NOW))
    await store.write(lambda tx: conversations.ensure(tx, "telegram:-5/9", "telegram", "telegram:-5/9", NOW))
    await make(store, row("s1", address=GROUP))
    await store.add(inbox.ADD_EVENTS, [due("telegram", "-5")])
    await store.write(lambda tx: conversations.migrate_chat(tx, "telegram", "-5", "-100"))
    await store.write(lambda tx: accounts.rename(tx, "telegram", "tg"))
    moved = await store.read(lambda tx: schedules.load(tx, "s1"))
    assert moved is not None
    assert moved.address == Address(account="tg", chat="-100", topic="9", kind="group")
    assert (moved.conversation, moved.person) == ("tg:-100/9", "tg:7")
    assert await store.add(inbox.ADD_EVENTS, [due("tg", "-100")]) == [None]
    (waiting,) = await store.read(inbox.unsettled)
    assert '"chat":"-100"' in waiting.event
    assert '"account":"tg"' in waiting.event


async def test_an_event_is_still_new_until_somebody_decided_on_it(store: Store) -> None:
    event = due("telegram", "-5")
    assert await store.read(lambda tx: inbox.still_new(tx, event)) is None
    (added,) = await store.add(inbox.ADD_EVENTS, [event])
    assert added is not None
    assert await store.read(lambda tx: inbox.still_new(tx, event)) == added
    await store.write(lambda tx: inbox.settle(tx, [added.id], InboxState.DONE))
    assert await store.read(lambda tx: inbox.still_new(tx, event)) is None
