"""What runs with every message, at every start and for /status looks rows up: nothing reads through a table that grows
with the time, and nothing sorts one."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from bot.operations import upkeep
from bot.store import usage
from tests.bot.core import ANN, core

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LISTS = frozenset({"access", "alembic_version", "instance", "sessions", "sqlite_master", "tokens"})
"""What is read as a whole: it grows with the people, or not at all."""
SORTED = "USE TEMP B-TREE FOR ORDER BY"
FEW = (
    r"FROM runs .*runs\.state (=|IN)",  # those that have not ended
    r"FROM deletions .*done_at IS NULL",
    r"FROM branches .*made_at IS NULL",
    r"FROM approvals .*run_id =",
    r"FROM (access|sessions|tokens|sqlite_master) ",
)
"""Statements that find a few rows by an index, and sort these."""
WHOLE = r"FROM usage GROUP BY"
"""The sum of everything, which /usage tells administrators: the rows of long ago are sums already."""


class Statements:
    """What SQLite was asked, with its parameters, by what went on then."""

    def __init__(self) -> None:
        self.phase = "start"
        self.seen: defaultdict[str, dict[str, str]] = defaultdict(dict)

    def add(self, statement: str) -> None:
        if statement.lstrip().startswith(("SELECT", "UPDATE", "DELETE", "WITH")):
            form = re.sub(r"'[^']*'|\b\d+\b", "?", " ".join(statement.split()))
            self.seen[self.phase].setdefault(form, statement)

    def faults(self, database: Path) -> list[tuple[str, str, str]]:
        """(phase, step, statement) of what reads through a table, or sorts what may be one."""
        found = []
        with sqlite3.connect(database) as raw:
            for phase, statements in self.seen.items():
                for form, statement in statements.items():
                    steps = [row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {statement}")]
                    found += [(phase, step, form) for step in steps if _is_fault(step, form)]
        raw.close()
        return found


def _is_fault(step: str, form: str) -> bool:
    if step == SORTED:
        return not any(re.search(each, form) for each in FEW)
    return step.startswith("SCAN") and step.split()[1] not in LISTS and not re.search(WHOLE, form)


@pytest.fixture
def statements() -> Iterator[Statements]:
    found = Statements()

    def record(connection: sqlite3.Connection, _record: object) -> None:
        connection.set_trace_callback(found.add)

    event.listen(Engine, "connect", record)
    yield found
    event.remove(Engine, "connect", record)


async def test_nothing_reads_through_what_grows(tmp_path: Path, statements: Statements) -> None:
    async with core(tmp_path) as c:
        for phase in ("a message", "/status", "/usage", "/threads", "/why", "/undo", "/queue", "a second message"):
            statements.phase = phase
            await c.say(phase, ANN)
            await c.answered()
        statements.phase = "the upkeep of an hour"
        (tmp_path / "spool" / "of-no-run").mkdir(parents=True)
        keeping = asyncio.create_task(upkeep.prune(c.store, c.clock, lambda: timedelta(days=30), c.pictures))
        await c.clock.settle()
        keeping.cancel()
        now, days = c.clock.now(), c.spending.days
        await upkeep.sum_up_usage(c.store, days, timedelta(days=30))
        await c.store.read(lambda tx: usage.threads_between(tx, now - timedelta(days=1), now))
        await c.store.write(lambda tx: usage.fold(tx, ["a thread"], now - timedelta(days=1), now))
        await c.clock.advance(2 * upkeep.IDLE.total_seconds())
        condensing = asyncio.create_task(upkeep.condense(c.store, c.clock, c.parts.agent.harness, c.manager))
        await c.clock.advance(10 * upkeep.READ_SECONDS)
        await condensing
        assert [drop for _, _, drop in c.harness.condensed] == [False, True]
        statements.phase = "a second start"
        await c.restart()
        statements.phase = "the machine's status"
        await c.status.machine()
        statements.phase = "the end"
    assert len(statements.seen["a message"]) >= 15
    assert len(statements.seen["a second start"]) >= 15

    assert statements.faults(tmp_path / "antler.db") == []
