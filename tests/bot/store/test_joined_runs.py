"""A run that hears what another one was to answer: once, with its messages, and nothing of it outlasts a deletion."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import select

from bot.store import inbox, runs
from bot.store.forgetting import Whose, blank_input, without_others
from bot.store.inbox import ADD_EVENTS
from bot.store.rows import InboxState, RunRow, RunState
from bot.store.tables import inbox as inbox_table
from harness.context import InputFile, ResearchRequest
from tests.bot.store.samples import LATER, NOW, OWNER, message, run_row

if TYPE_CHECKING:
    from bot.store import Store


async def opened(store: Store, key: str) -> RunRow:
    (row,) = await store.add(ADD_EVENTS, [message(key)])
    assert row is not None
    run = run_row(row.id)
    await store.write(lambda tx: runs.open(tx, run))
    return run


async def test_its_messages_end_with_the_run_that_heard_them(store: Store) -> None:
    working, waiting = await opened(store, "u:1"), await opened(store, "u:2")
    await store.write(lambda tx: runs.start(tx, working.run_id, None, NOW, store.epoch))
    known, said = (run.input for run in (working, waiting))
    heard = replace(known, steered=(said,))
    joined = [
        await store.write(lambda tx: runs.join(tx, working.run_id, waiting.run_id, heard, LATER)) for _ in range(2)
    ]
    assert joined == [True, False]

    rows = await store.read(lambda tx: [runs.load(tx, run.run_id) for run in (working, waiting)])
    assert [row and row.state for row in rows] == [RunState.RUNNING, RunState.INTERRUPTED]
    assert rows[0] is not None
    assert rows[0].input.steered == (said,)
    assert [row.run_id for row in await store.read(runs.unended)] == [working.run_id]
    assert await store.read(lambda tx: runs.last_worked(tx, OWNER, "thread")) is None

    states = select(inbox_table.c.state, inbox_table.c.run_id)
    assert [tuple(row) for row in await store.read(lambda tx: tx.execute(states).all())] == [
        (InboxState.ASSIGNED, working.run_id)
    ] * 2
    await store.write(lambda tx: runs.end(tx, working.run_id, RunState.SUCCESS, LATER))
    ids = (*working.inbox_ids, *waiting.inbox_ids)
    assert [row.state for row in await store.read(lambda tx: inbox.load(tx, ids))] == [InboxState.DONE] * 2


def test_what_was_heard_is_deleted_with_the_rest() -> None:
    said = run_row(1).input
    whole = replace(said, text="first", steered=(replace(said, text="second", quote="q", background=("b",)),))
    assert whole.whole == replace(whole, text="first\nsecond", quote="q", background=("b",), steered=())
    assert blank_input(whole) == blank_input(replace(whole, steered=()))
    assert "second" not in str(blank_input(whole))


def test_what_a_research_knew_of_the_thread_is_deleted_with_it_and_with_others() -> None:
    earlier = InputFile(path=Path("/data/1a-theirs.txt"), name="theirs.txt", mime_type="text/plain", size=1)
    asked = replace(run_row(1).input, research=ResearchRequest(auto=True, files=(earlier,)), collections=("theirs",))
    assert "theirs" not in str(blank_input(asked))
    whose = Whose(account="telegram", native="7", names=frozenset({"Ann"}))
    assert without_others(asked, whose, met=True).research == ResearchRequest(auto=True)
