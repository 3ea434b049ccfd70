"""Clearing old checkpoints away never costs an answer."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from harness.threads.checkpoints import PRUNE_EVERY
from tests.harness.support import Bench, Script, collect, context, finished, said

if TYPE_CHECKING:
    import pytest

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
