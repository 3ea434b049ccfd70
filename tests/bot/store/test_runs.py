"""Runs keep their messages, their names and an honest count of attempts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from bot.store import Store, inbox, run_events, runs
from bot.store.inbox import ADD_EVENTS, AlreadyAssigned
from bot.store.rows import InboxState, RunRow, RunState
from tests.bot.store.samples import LATER, NOW, message, pruned, run_row


async def opened(store: Store, key: str = "u:1", conversation: str = "telegram:7") -> RunRow:
    (row,) = await store.add(ADD_EVENTS, [message(key)])
    assert row is not None
    run = run_row(row.id, conversation=conversation)
    await store.write(lambda tx: runs.open(tx, run))
    return run


async def start(store: Store, run: RunRow, head: str | None = None) -> RunRow:
    return await store.write(lambda tx: runs.start(tx, run.run_id, head, LATER, store.epoch))


async def test_open_takes_its_messages_or_nothing(store: Store) -> None:
    run = await opened(store)
    assert await store.read(lambda tx: runs.load(tx, run.run_id)) == run
    assert await store.read(inbox.unsettled) == []
    await store.write(lambda tx: runs.open(tx, run))  # again, as after a commit whose answer was lost

    rival = run_row(*run.inbox_ids)
    with pytest.raises(AlreadyAssigned):
        await store.write(lambda tx: runs.open(tx, rival))
    assert await store.read(runs.unended) == [run]


async def test_attempts_count_starts_without_progress(store: Store) -> None:
    run = await opened(store)

    first = await start(store, run)
    assert (first.attempt, first.state, first.started_at, first.epoch) == (1, RunState.RUNNING, LATER, store.epoch)
    assert (await start(store, run)).attempt == 2
    assert (await start(store, run)).attempt == 3
    assert (await start(store, run, head="c1")).attempt == 1
    assert (await start(store, run, head="c1")).attempt == 2
    await store.write(lambda tx: runs.suspend(tx, run.run_id))
    assert [row.run_id for row in await store.read(lambda tx: runs.queued(tx, "telegram:7"))] == [run.run_id]
    assert (await start(store, run, head="c1")).attempt == 1
    later = await store.write(lambda tx: runs.start(tx, run.run_id, "c1", LATER + timedelta(1), store.epoch))
    assert (later.attempt, later.started_at) == (2, LATER)


async def died(store: Store) -> list[RunRow]:
    """What the next process finds and notes, should this one die now."""
    found = await store.read(runs.unended)
    return await store.write(lambda tx: runs.record_deaths(tx, found))


async def against(store: Store, run: RunRow) -> int:
    row = await store.read(lambda tx: runs.load(tx, run.run_id))
    assert row is not None
    return await store.read(lambda tx: runs.deaths_against(tx, row))


async def test_only_what_was_at_work_has_a_death_and_each_only_once(store: Store) -> None:
    working, asking, suspended, waiting = [await opened(store, key, f"telegram:{key}") for key in "abcd"]
    for run in (working, asking, suspended):
        await start(store, run)
    await store.write(lambda tx: runs.wait(tx, asking.run_id))
    await store.write(lambda tx: runs.suspend(tx, suspended.run_id))
    for _ in range(3):  # the next processes die before they start anything
        noted = {row.run_id: row.deaths for row in await died(store)}
        assert noted == {working.run_id: (store.epoch,)} | dict.fromkeys(
            (run.run_id for run in (asking, suspended, waiting)), ()
        )
    await store.write(lambda tx: runs.start(tx, working.run_id, None, LATER, store.epoch + 1))
    assert next(row.deaths for row in await died(store) if row.run_id == working.run_id) == (
        store.epoch,
        store.epoch + 1,
    )
    # It came as far as to ask a person: what happened before is not held against it.
    await store.write(lambda tx: runs.wait(tx, working.run_id))
    assert [row.deaths for row in await store.read(runs.unended)] == [()] * 4


@pytest.mark.parametrize(
    ("state", "detail", "counted"),
    [
        (RunState.SUCCESS, None, 1),
        (RunState.TIMEOUT, None, 1),
        (RunState.LIMITED, None, 1),
        (RunState.ERROR, "unavailable", 1),
        (RunState.ERROR, runs.DEAD_LETTER, 0),
        (RunState.INTERRUPTED, "stopped", 0),
    ],
)
async def test_a_death_counts_against_a_run_once_all_others_of_it_have_lived(
    store: Store, state: RunState, detail: str | None, counted: int
) -> None:
    one, other = [await opened(store, key, f"telegram:{key}") for key in "ab"]
    for run in (one, other):
        await start(store, run)
    await died(store)
    assert [await against(store, run) for run in (one, other)] == [0, 0]
    await store.write(lambda tx: runs.end(tx, other.run_id, state, LATER, detail))
    assert await against(store, one) == counted
    await store.write(lambda tx: runs.start(tx, one.run_id, None, LATER, store.epoch + 1))
    await died(store)  # alone
    assert await against(store, one) == counted + 1


async def test_end_settles_its_messages_once(store: Store) -> None:
    run = await opened(store)
    await start(store, run)
    assert await store.write(lambda tx: runs.end(tx, run.run_id, RunState.SUCCESS, LATER, "fine"))
    assert not await store.write(lambda tx: runs.end(tx, run.run_id, RunState.ERROR, LATER))

    ended = await store.read(lambda tx: runs.load(tx, run.run_id))
    assert ended is not None
    assert (ended.state, ended.ended_at) == (RunState.SUCCESS, LATER)
    (row,) = await store.read(lambda tx: inbox.load(tx, run.inbox_ids))
    assert row.state is InboxState.DONE
    assert await store.read(runs.unended) == []
    with pytest.raises(runs.RunEnded):
        await start(store, run)
    with pytest.raises(LookupError):
        await store.write(lambda tx: runs.start(tx, "nobody", None, NOW, 1))
    with pytest.raises(ValueError, match="not an ending"):
        await store.write(lambda tx: runs.end(tx, run.run_id, RunState.PENDING, LATER))


async def test_what_is_stopped_or_put_first_goes_first_and_the_first_reason_counts(store: Store) -> None:
    begun, stopped, late, first = [await opened(store, key) for key in "abcd"]
    await start(store, begun)
    await store.write(lambda tx: runs.suspend(tx, begun.run_id))
    await store.write(lambda tx: runs.put_ahead(tx, first.run_id, 1))
    for reason in ("rollback", "stopped"):
        await store.write(lambda tx, reason=reason: runs.ask_to_stop(tx, stopped.run_id, reason))  # type: ignore[misc]  # mypy has no type for a lambda's default
    queued = await store.read(lambda tx: runs.queued(tx, "telegram:7"))
    assert [row.run_id for row in queued] == [row.run_id for row in (stopped, begun, first, late)]
    assert [row.stop for row in queued] == ["rollback", None, None, None]

    await store.write(lambda tx: runs.end(tx, late.run_id, RunState.SUCCESS, LATER))
    await store.write(lambda tx: runs.ask_to_stop(tx, late.run_id, "stopped"))
    ended = await store.read(lambda tx: runs.load(tx, late.run_id))
    assert ended is not None
    assert ended.stop is None


async def test_the_last_that_worked_is_the_one_that_ended_last_in_its_thread(store: Store) -> None:
    one, two, dropped, other = [await opened(store, key) for key in "abcd"]
    assert await store.read(lambda tx: runs.last_worked(tx, "telegram:7", "thread")) is None
    for run, after, detail in ((two, 1, ""), (one, 2, "stopped"), (dropped, 3, runs.NEVER_WANTED)):
        at = LATER + timedelta(seconds=after)
        await store.write(lambda tx, r=run, at=at, d=detail: runs.end(tx, r.run_id, RunState.INTERRUPTED, at, d))  # type: ignore[misc]  # as above
    last = await store.read(lambda tx: runs.last_worked(tx, "telegram:7", "thread"))
    assert last is not None
    assert last.run_id == one.run_id
    assert await store.read(lambda tx: runs.last_worked(tx, "telegram:7", "another thread")) is None
    assert other.state is RunState.PENDING


async def test_one_run_at_a_time_in_a_conversation(store: Store) -> None:
    one, two, other = [await opened(store, key) for key in "ab"] + [await opened(store, "c", "telegram:8")]
    await start(store, one)
    await start(store, other)

    with pytest.raises(IntegrityError):
        await start(store, two)
    active = await store.read(lambda tx: runs.active(tx, "telegram:7"))
    assert active is not None
    assert active.run_id == one.run_id
    assert [row.run_id for row in await store.read(lambda tx: runs.queued(tx, "telegram:7"))] == [two.run_id]
    assert [row.run_id for row in await store.read(runs.unended)] == [one.run_id, two.run_id, other.run_id]
    newest = await store.read(lambda tx: runs.recent(tx, "telegram:7", 1))
    assert [row.run_id for row in newest] == [two.run_id]
    await store.write(lambda tx: runs.end(tx, one.run_id, RunState.INTERRUPTED, LATER))
    await start(store, two)


async def test_a_waiting_run_is_extended(store: Store) -> None:
    run = await opened(store)
    (late,) = await store.add(ADD_EVENTS, [message("u:2")])
    assert late is not None
    both = replace(run.input, text="both")
    await store.write(lambda tx: runs.extend(tx, run.run_id, [late.id, *run.inbox_ids], both))
    extended = await store.read(lambda tx: runs.load(tx, run.run_id))
    assert extended == replace(run, inbox_ids=(*run.inbox_ids, late.id), input=both)

    await store.write(lambda tx: runs.set_input(tx, run.run_id, run.input))
    assert await store.read(lambda tx: runs.load(tx, run.run_id)) == replace(extended, input=run.input)
    assert await store.read(inbox.unsettled) == []


async def test_events_are_appended_once_and_pruned_with_their_run(store: Store) -> None:
    run = await opened(store)
    await store.write(lambda tx: run_events.append(tx, run.run_id, [(0, "started", "{}"), (1, "text", '"a"')]))
    await store.write(lambda tx: run_events.append(tx, run.run_id, [(1, "text", '"b"'), (2, "text", '"c"')]))
    await store.write(lambda tx: run_events.append(tx, run.run_id, []))

    events = await store.read(lambda tx: run_events.read(tx, run.run_id, 0))
    assert events == [(1, "text", '"a"'), (2, "text", '"c"')]
    assert await store.read(lambda tx: run_events.last_seq(tx, run.run_id)) == 2
    assert await store.read(lambda tx: run_events.last_seq(tx, "other")) is None

    after = LATER + timedelta(microseconds=1)
    assert await pruned(store, runs, after) == 0
    await store.write(lambda tx: runs.end(tx, run.run_id, RunState.ERROR, LATER))
    assert await pruned(store, runs, LATER) == 0
    assert await pruned(store, runs, after) == 1
    assert await store.read(lambda tx: runs.load(tx, run.run_id)) is None
    assert await store.read(lambda tx: run_events.read(tx, run.run_id)) == []


async def test_the_others_who_spoke_are_named_by_what_they_are_called_now(store: Store) -> None:
    spoken = (("1", "Ann"), ("2", "Bob"), ("3", "Cid"), ("2", "Bobby"), ("4", ""))
    for number, (who, name) in enumerate(spoken):
        (row,) = await store.add(ADD_EVENTS, [message(f"u:{number}")])
        assert row is not None
        made = run_row(row.id, conversation="telegram:-5")
        speaker = replace(made.context.speaker, id=f"telegram:{who}", display_name=name)
        made = replace(made, speaker=speaker.id, context=replace(made.context, speaker=speaker))
        await store.write(lambda tx, made=made: runs.open(tx, made))  # type: ignore[misc]

    async def others(person: str, conversation: str = "telegram:-5") -> tuple[str, ...]:
        return await store.read(lambda tx: runs.others_who_spoke(tx, conversation, person))

    assert await others("telegram:1") == ("Bobby", "Cid")
    assert await others("telegram:2") == ("Cid", "Ann")
    assert await others("telegram:2", "telegram:-6") == ()
