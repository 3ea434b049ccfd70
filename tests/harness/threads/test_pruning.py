"""Clearing old checkpoints away never costs an answer."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from harness.context import HistoryEntry, Removal
from harness.errors import ThreadTooLarge
from harness.threads import operations
from harness.threads.checkpoints import PRUNE_EVERY, WRITES_BETWEEN
from tests.harness.support import Bench, Script, collect, context, finished, said

FULL = "CREATE TRIGGER full BEFORE DELETE ON checkpoints BEGIN SELECT RAISE(FAIL, 'database or disk is full'); END"


def kept(bench: Bench) -> int:
    with closing(sqlite3.connect(bench.file)) as file:
        return int(file.execute("SELECT count(*) FROM checkpoints").fetchone()[0])


def run(bench: Bench, statement: str) -> None:
    with closing(sqlite3.connect(bench.file)) as file, file:
        file.execute(statement)


async def test_what_cannot_be_cleared_away_now_is_cleared_away_later(
    bench: Bench, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    turns = PRUNE_EVERY // 2 - 2  # two steps each and more, and too few for a summary
    script.steps = [f"Answer {number}." for number in range(2 * turns)]
    async with bench.open() as harness:
        await collect(harness, context("r0"), said("begin"))
        run(bench, FULL)
        for number in range(1, turns):
            end = finished(await collect(harness, context(f"r{number}"), said("go on")))
            assert end.text == f"Answer {number}."
        assert "disk is full" in caplog.text
        everything = kept(bench)
        run(bench, "DROP TRIGGER full")
        finished(await collect(harness, context("last"), said("go on")))
    assert kept(bench) < everything / 2


def note(name: str, text: str = "Noted.") -> HistoryEntry:
    return HistoryEntry(message_id=name, role="user", text=text)


@pytest.mark.parametrize("goes_back", [False, True])
async def test_a_thread_that_programs_write_into_does_not_grow_by_that(
    bench: Bench, script: Script, goes_back: bool
) -> None:
    script.steps = ["One.", "Two."]
    async with bench.open() as harness:
        for number in (1, 2):
            base = (await harness.head("thread-1")).id
            await collect(harness, context(f"r{number}"), said(f"text {number}"))
        place = (await harness.head("thread-1")).id if goes_back else None
        most = 0
        for _ in range(3 * WRITES_BETWEEN):
            await harness.change("thread-1", [note("n")], at=place)
            most = max(most, kept(bench))
        assert most < 4 * WRITES_BETWEEN, "three steps each at most, and cleared away meanwhile"
        assert len(await harness.history("thread-1")) == 5
        await harness.rewind("thread-1", base)
        assert len(await harness.history("thread-1")) == 2, "the last turn can still be taken back"


async def test_a_thread_is_written_into_up_to_a_size(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench.open() as harness:
        await harness.change("thread-1", [note("a", "x" * 50), note("b", "x" * 50)])
        monkeypatch.setattr(operations, "MOST_CHARACTERS", 100)
        with pytest.raises(ThreadTooLarge, match="100 characters"):
            await harness.change("thread-1", [note("c", "x")])
        await harness.change("thread-1", [note("a", "y"), note("c", "x" * 49)])
        monkeypatch.setattr(operations, "MOST_MESSAGES", 2)
        monkeypatch.setattr(operations, "MOST_CHARACTERS", 10)
        with pytest.raises(ThreadTooLarge, match="2 messages"):
            await harness.change("thread-1", [note("d", "x")])
        await harness.change("thread-1", [Removal("b"), note("d", "x")])
        assert [each.message_id for each in await harness.history("thread-1")] == ["a", "c", "d"], "it became no larger"
