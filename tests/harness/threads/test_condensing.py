"""A condensed thread is as it was: what is read of it, what the model reads next, and what /undo takes back."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.tools import tool

from harness.config import SummarizationSettings
from harness.context import HistoryEntry
from harness.graph.state import RUN_KEY
from harness.threads import checkpoints as kept
from harness.threads.checkpoints import LAST_STEPS, open_checkpoints
from tests.harness.support import Bench, Script, calls, collect, context, said

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from harness.run.runner import HarnessRunner

TURNED_DOWN = """
CREATE TRIGGER stopped BEFORE DELETE ON checkpoints WHEN (SELECT count(*) FROM checkpoints) <= 40
BEGIN SELECT RAISE(FAIL, 'the process died here'); END
"""
ACTS = ["turn", "turn", "tools", "todos", "stopped", "compact", "change", "undo"]


@tool
async def look(page: int) -> str:
    """Look at a page."""
    return f"page {page} " + "and so on " * 20


@dataclass
class Played:
    """A thread that is played. bases: where it was before each run that it remembers, the newest last."""

    harness: HarnessRunner
    script: Script
    thread: str
    bases: list[str | None] = field(default_factory=list)
    turns: int = 0

    async def turn(self, *steps: Any) -> list[tuple[str, str]]:
        """One turn; returns the last request of it."""
        self.bases.append((await self.harness.head(self.thread)).id)
        self.turns += 1
        self.script.steps = [*steps, *[f"answer {self.turns}"] * 3]  # the first may be taken for a summary
        await collect(self.harness, context(f"r{self.turns}", thread=self.thread), said(f"text {self.turns}"))
        return [_shown(message) for message in self.script.requests[-1]]

    async def stopped(self) -> None:
        """A turn that is stopped after a round of tools, as a crash leaves it."""
        asked = asyncio.Event()

        async def silent() -> str:
            asked.set()
            await asyncio.Event().wait()
            return ""

        turn = asyncio.create_task(self.turn(calls(("look", {"page": 4})), silent))
        waiting = asyncio.create_task(asked.wait())
        await asyncio.wait({turn, waiting}, return_when=asyncio.FIRST_COMPLETED)  # or a summary took the round's place
        waiting.cancel()
        turn.cancel()
        await asyncio.wait({turn})

    async def undo(self) -> None:
        await self.harness.rewind(self.thread, self.bases.pop())

    async def act(self, name: str) -> None:
        match name:
            case "turn":
                await self.turn()
            case "tools":
                await self.turn(calls(("look", {"page": 1}), ("look", {"page": 2})), calls(("look", {"page": 3})))
            case "todos":
                todo = {"content": f"step {self.turns}", "status": "in_progress"}
                await self.turn(calls(("write_todos", {"todos": [todo]})))
            case "stopped":
                await self.stopped()
            case "compact":
                self.script.steps = ["in short"]
                await self.harness.compact(self.thread, "main")
            case "change":
                note = HistoryEntry(message_id=f"n{self.turns % 3}", role="user", text=f"a note {self.turns}")
                await self.harness.change(self.thread, [note])
            case "undo" if self.bases and self.bases[-1]:
                await self.undo()

    async def condense(self) -> None:
        keep = [base for base in self.bases[-1:] if base]
        await self.harness.condense(self.thread, keep, drop=False)
        await self.harness.condense(self.thread, keep, drop=True)

    async def state(self) -> tuple[Any, ...]:
        """All that is read of it."""
        views = [replace(view, parent_id=None) for view in await self.harness.views(self.thread)]
        saved = (await self.harness.head(self.thread)).saved
        values = saved.checkpoint["channel_values"] if saved is not None else {}
        rest = {name: value for name, value in values.items() if name != "messages"}
        metadata = saved.metadata.get(RUN_KEY) if saved is not None else None
        return await self.harness.history(self.thread), views, rest, metadata


def _shown(message: BaseMessage) -> tuple[str, str]:
    return message.type, str(message.content)


async def steps_of(harness: HarnessRunner, thread: str) -> int:
    run = harness.checkpoints.run
    ((count,),) = await run("SELECT count(*) FROM checkpoints WHERE thread_id = ?", (thread,))
    return int(count)


async def size_of(harness: HarnessRunner, thread: str) -> int:
    """Bytes of a thread in SQLite's two tables."""
    columns = {"checkpoints": "checkpoint", "writes": "value"}
    sums = (f"SELECT sum(length({name})) FROM {table} WHERE thread_id = ?" for table, name in columns.items())
    return sum([(await harness.checkpoints.run(each, (thread,)))[0][0] for each in sums])


@pytest.mark.parametrize("seed", range(8))
async def test_what_is_read_after_condensing_is_what_was_read_before(
    bench: Bench, script: Script, database: str, seed: int
) -> None:
    bench.tools, bench.summarization = [look], SummarizationSettings(max_messages=30, keep=8)
    dice = random.Random(seed)
    acts = ["turn", *dice.choices(ACTS, k=dice.randint(1, 24))]
    async with bench.open() as harness:
        one, same = Played(harness, script, "thread-1"), Played(harness, script, "thread-2")
        for act in acts:
            for each in (one, same):
                await each.act(act)
    async with bench.open() as harness:
        one.harness = same.harness = harness
        before, many = await one.state(), await steps_of(harness, one.thread)
        await one.condense()
        assert await one.state() == before
        assert await steps_of(harness, one.thread) <= min(many, LAST_STEPS + 1)
        await one.condense()
        assert await one.state() == before
        if dice.random() < 0.5 and one.bases[-1]:
            for each in (one, same):
                await each.undo()
            assert await harness.history(one.thread) == await harness.history(same.thread)
            assert [v.todos for v in (await one.state())[1]] == [v.todos for v in (await same.state())[1]]
        assert await one.turn() == await same.turn()
        assert await harness.history(one.thread) == await harness.history(same.thread)
        for each in (one, same):
            await each.undo()
        assert await harness.history(one.thread) == await harness.history(same.thread)


async def test_a_long_thread_takes_a_whole_copy_and_its_last_turn(bench: Bench, script: Script, database: str) -> None:
    async with bench.open() as harness:
        played = Played(harness, script, "thread-1")
        for _ in range(14):
            await played.turn()
        await played.act("undo")
        await played.turn()
        others = Played(harness, script, "thread-2")
        await others.turn()
        many, base = await steps_of(harness, "thread-1"), played.bases[-1]
        assert many > 40
        await played.condense()
        few = await steps_of(harness, "thread-1")
        assert few <= 6
        assert (await harness.views("thread-1", at=base))[0].messages, "what /undo goes back to"
        assert await steps_of(harness, "thread-2") > 1, "another thread"
        played.bases.clear()  # its runs are forgotten
        before = await played.state()
        await played.condense()
        assert await steps_of(harness, "thread-1") == 1
        assert await played.state() == before


async def test_where_a_process_dies_the_next_goes_on(
    bench: Bench, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its two writes, and within the second."""
    async with bench.open() as harness:
        played = Played(harness, script, "thread-1")
        for _ in range(15):
            await played.turn()
        before, base = await played.state(), played.bases[-1]
        assert base is not None
        await harness.condense("thread-1", [base], drop=False)
    async with bench.open() as harness:
        played.harness = harness
        assert await played.state() == before
        with closing(sqlite3.connect(bench.file)) as file, file:
            file.execute(TURNED_DOWN)
        monkeypatch.setattr(kept, "DELETED_AT_ONCE", 3)
        with pytest.raises(sqlite3.IntegrityError, match="died here"):
            await harness.condense("thread-1", [base], drop=True)
    async with bench.open() as harness:
        played.harness = harness
        assert await played.state() == before
        for view in await harness.views("thread-1", limit=100):  # whatever is left has what it is made of
            ids = [message["id"] for message in view.messages]
            assert ids == [message["id"] for message in before[1][0].messages[: len(ids)]]
            assert view.step < 1 or ids
        with closing(sqlite3.connect(bench.file)) as file, file:
            file.execute("DROP TRIGGER stopped")
        await played.condense()
        assert await played.state() == before
        assert await steps_of(harness, "thread-1") <= 6
        await played.undo()
        assert len(await harness.history("thread-1")) == 28


async def test_another_process_that_begins_a_turn_meanwhile_loses_nothing(
    bench: Bench, script: Script, database: str
) -> None:
    """The worker has begun before the copy, or between the copy and the rest; the gateway did not hear of it."""
    for begins_first in (True, False):
        async with bench.open() as gateway, bench.open() as worker:
            thread = f"thread {begins_first}"
            played = Played(gateway, script, thread)
            for _ in range(14):
                await played.turn()
            before, base = await gateway.history(thread), played.bases[-1]
            assert base is not None
            asked, condensed = asyncio.Event(), asyncio.Event()

            async def answer(asked: asyncio.Event = asked, condensed: asyncio.Event = condensed) -> str:
                asked.set()
                await condensed.wait()
                return "the last"

            script.steps = [answer]
            turn = collect(worker, context("other", thread=thread), said("meanwhile"))
            if not begins_first:
                await gateway.condense(thread, [base], drop=False)
            running = asyncio.create_task(turn)
            async with asyncio.timeout(20):
                await asked.wait()
            if begins_first:
                await gateway.condense(thread, [base], drop=False)
            await gateway.condense(thread, [base], drop=True)
            condensed.set()
            await running
            assert [e.text for e in await gateway.history(thread)][-2:] == ["meanwhile", "the last"]
            assert (await gateway.history(thread))[:-2] == before
            assert len(script.requests[-1]) == len(before) + 2


async def test_a_thread_that_is_deleted_meanwhile_stays_deleted(bench: Bench, script: Script, database: str) -> None:
    async with bench.open() as harness:
        played = Played(harness, script, "thread-1")
        for _ in range(3):
            await played.turn()
    checkpoints = await open_checkpoints(database)
    statement, run = checkpoints.copying, checkpoints.run

    async def late(asked: str, parameters: tuple[Any, ...], *also: str) -> list[Any]:
        if asked == statement:
            await checkpoints.forget("thread-1")
        return await run(asked, parameters, *also)

    await replace(checkpoints, run=late).copy("thread-1")
    assert await checkpoints.newest("thread-1") is None
    for table in ("checkpoints", checkpoints.writes, *(() if checkpoints.is_file else ("checkpoint_blobs",))):
        assert await run(f"SELECT count(*) FROM {table}", ()) == [(0,)]
    await checkpoints.close()


async def test_seventy_turns_take_less_than_half(bench: Bench, script: Script) -> None:
    async with bench.open() as harness:
        played = Played(harness, script, "thread-1")
        for number in range(70):
            await played.turn(" ".join(f"word{number}-{place}" for place in range(60)))
        before = await size_of(harness, "thread-1")
        await played.condense()
        assert await size_of(harness, "thread-1") < before / 2
