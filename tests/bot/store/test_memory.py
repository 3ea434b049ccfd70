"""Memories, and what is still to be learnt, as the database keeps them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import select, update

from bot.clock import SystemClock
from bot.store import accounts, conversations, memories, memory_tables, run_events, runs
from bot.store.memories import MOST_QUIET_TIMES, MOST_TOGETHER, OwnerState, QueuedTurn, StoreMemories
from bot.store.run_events import StoreEffectLog
from harness.memory.model import Memory
from harness.ports import EffectKey
from tests.bot.store.samples import NOW, OWNER, run_row
from tests.contracts.test_memory_store import memory

if TYPE_CHECKING:
    import pytest

    from bot.store import Store

QUIET = timedelta(seconds=30)
SECOND = timedelta(seconds=1)


def turn(run_id: str, after: timedelta = SECOND * 0, **changes: str) -> QueuedTurn:
    made = QueuedTurn(
        run_id=run_id,
        owner=OWNER,
        thread_id="t1",
        speaker=OWNER,
        conversation=OWNER,
        exchange="{}",
        queued_at=NOW + after,
        due_at=NOW + after + QUIET,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


async def add(store: Store, *turns: QueuedTurn) -> None:
    for each in turns:
        await store.write(lambda tx, each=each: memories.queue_turn(tx, each, QUIET))  # type: ignore[misc]


async def first_of(store: Store, owner: str = OWNER) -> list[QueuedTurn]:
    return await store.read(lambda tx: memories.first_turns(tx, owner))


async def test_turns_of_one_person_in_one_thread_wait_for_each_other(store: Store) -> None:
    await add(store, turn("r1"), turn("r2", 20 * SECOND), turn("r2", 20 * SECOND), turn("other", thread_id="t2"))
    waiting = await first_of(store)
    assert [each.run_id for each in waiting] == ["other"]
    await store.write(lambda tx: memories.drop_turns(tx, [waiting[0].id]))
    waiting = await first_of(store)
    assert [each.run_id for each in waiting] == ["r1", "r2"]
    assert {each.due_at for each in waiting} == {NOW + 20 * SECOND + QUIET}


async def test_the_newest_are_kept_and_nobody_waits_for_ever(store: Store) -> None:
    count = MOST_TOGETHER + 5
    await add(store, *(turn(f"r{number}", number * 20 * SECOND) for number in range(count)))
    waiting = await first_of(store)
    assert [each.run_id for each in waiting] == [f"r{number}" for number in range(5, count)]
    assert waiting[0].due_at == NOW + 5 * 20 * SECOND + MOST_QUIET_TIMES * QUIET


async def test_owners_are_told_by_what_is_due_first(store: Store) -> None:
    await add(store, turn("late", 9 * SECOND, owner="b", thread_id="t2"), turn("r1"), turn("r2", 5 * SECOND))
    due = await store.read(lambda tx: memories.waiting_owners(tx, 10))
    assert due == [(OWNER, NOW + 5 * SECOND + QUIET), ("b", NOW + 9 * SECOND + QUIET)]


async def test_what_failed_is_tried_in_its_own_time_whatever_else_is_said(store: Store) -> None:
    await add(store, turn("r1"))
    (waiting,) = await first_of(store)
    again = NOW + timedelta(hours=1)
    await store.write(lambda tx: memories.postpone_turns(tx, [waiting.id], again, 3))
    await add(store, turn("r2", 5 * SECOND))
    assert [(each.due_at, each.tries) for each in await first_of(store)] == [(again, 3), (again, 0)]


async def test_what_a_person_drops_is_gone(store: Store) -> None:
    await add(store, turn("r1"), turn("r2", owner="g", speaker="a"), turn("r3", owner="g", speaker="b"))
    assert await store.write(lambda tx: memories.drop_turns_of(tx, "g", "a")) == 1
    ids = [each.id for each in await first_of(store, "g")]
    assert await store.read(lambda tx: memories.count_turns(tx, "g", ids)) == 1
    assert await store.read(lambda tx: memories.count_turns(tx, OWNER, ids)) == 0
    assert await store.write(lambda tx: memories.drop_turns_for(tx, "g")) == 1
    assert await store.write(lambda tx: memories.drop_turns_of_runs(tx, ["r1", "r9"])) == 1
    await add(store, turn("r4"))
    assert await store.write(lambda tx: memories.prune_turns(tx, NOW)) == 0
    assert await store.write(lambda tx: memories.prune_turns(tx, NOW + SECOND)) == 1


async def test_what_persons_decided_is_counted(store: Store) -> None:
    assert await store.read(lambda tx: memories.owner_state(tx, OWNER)) == OwnerState()
    await store.write(lambda tx: memories.change_owner(tx, OWNER, forgotten_at=NOW))
    state = await store.write(lambda tx: memories.change_owner(tx, OWNER, off=True))
    assert state == OwnerState(off=True, changed=2, forgotten_at=NOW)
    assert state == await store.read(lambda tx: memories.owner_state(tx, OWNER))
    assert state.had_forgotten(NOW)
    assert not state.had_forgotten(NOW + SECOND)


async def test_numbers_are_of_the_last_list_and_of_its_owner(store: Store) -> None:
    await store.write(lambda tx: memories.record_list(tx, "c", OWNER, ["f1"], NOW))
    await store.write(lambda tx: memories.record_list(tx, "c", OWNER, ["f2", "f1"], NOW))
    assert await store.read(lambda tx: memories.listed_facts(tx, "c", OWNER)) == ["f2", "f1"]
    assert await store.read(lambda tx: memories.listed_facts(tx, "c", "other")) is None
    assert await store.write(lambda tx: memories.prune_lists(tx, NOW + SECOND)) == 1
    assert await store.read(lambda tx: memories.listed_facts(tx, "c", OWNER)) is None


async def test_a_broken_memory_is_set_aside_and_the_last_good_one_used(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    kept = StoreMemories(store, SystemClock())
    await kept.save(OWNER, memory("likes pears"))
    await kept.save(OWNER, memory("likes figs"))
    await store.write(lambda tx: tx.execute(update(memory_tables.memories).values(body='{"version": 99}')).rowcount)
    assert await kept.load(OWNER) == memory("likes pears")
    assert await kept.load(OWNER) == memory("likes pears")
    assert await store.read(lambda tx: tx.scalar(select(memory_tables.memories.c.broken))) == '{"version": 99}'
    assert "set aside" in caplog.text
    assert "99" not in caplog.text
    await store.write(lambda tx: tx.execute(update(memory_tables.memories).values(body="broken too")).rowcount)
    assert await kept.load(OWNER) == Memory()


async def test_the_tools_of_a_run_are_known_also_those_that_a_crash_left_no_event_of(store: Store) -> None:
    row = run_row()
    await store.write(lambda tx: runs.open(tx, row))
    body = '{"type":"tool_started","run_id":"r","seq":1,"call_id":"c","tool":"web_fetch","summary":""}'
    await store.write(lambda tx: run_events.append(tx, row.run_id, [(1, "tool_started", body)]))
    key = EffectKey(thread_id=row.thread_id, run_id=row.run_id, call_id="m/c2")
    await StoreEffectLog(store).begin(key, "bash")  # type: ignore[arg-type]
    assert await store.read(lambda tx: run_events.tools_called(tx, row.run_id)) == {"web_fetch", "bash"}


async def test_all_of_it_moves_with_its_chat_and_its_account(store: Store) -> None:
    group, moved = "telegram:-5/9", "telegram:-100/9"
    await store.write(lambda tx: accounts.bind(tx, "telegram", "telegram", "1", NOW))
    await store.write(lambda tx: conversations.ensure(tx, group, "telegram", group, NOW))
    await add(store, replace(turn("r1"), owner=group, conversation=group))
    await store.write(lambda tx: memories.change_owner(tx, group, off=True))
    await store.write(lambda tx: memories.change_owner(tx, moved, off=False))
    await store.write(lambda tx: memories.record_list(tx, group, group, ["f1"], NOW))
    await store.write(lambda tx: conversations.migrate_chat(tx, "telegram", "-5", "-100"))
    await store.write(lambda tx: accounts.rename(tx, "telegram", "tg"))
    (waiting,) = await first_of(store, "tg:-100/9")
    assert (waiting.conversation, waiting.speaker) == ("tg:-100/9", "tg:7")
    assert (await store.read(lambda tx: memories.owner_state(tx, "tg:-100/9"))).off
    assert await store.read(lambda tx: memories.listed_facts(tx, "tg:-100/9", "tg:-100/9")) == ["f1"]
