"""Which threads are condensed, and when: those that nobody used for a day, in which nothing runs or waits."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from bot.operations import upkeep
from bot.store import conversations, forgetting, runs
from harness.errors import ThreadTooLarge
from tests.bot.core import ANN, BOB, Core, core
from tests.bot.http.served import PERSON, served
from tests.bot.store.samples import pruned

if TYPE_CHECKING:
    from pathlib import Path


DAY = upkeep.IDLE.total_seconds()


async def condense(c: Core) -> list[tuple[tuple[str, ...], bool]]:
    """What is done to threads in a pass: what is kept of them, and whether the rest is dropped."""
    c.harness.condensed.clear()
    await c.clock.until(upkeep.condense(c.store, c.clock, c.parts.agent.harness, c.manager))
    return [(keep, drop) for _, keep, drop in c.harness.condensed]


async def thread_of(c: Core, person: str) -> str:
    row = await c.store.read(lambda tx: conversations.load(tx, f"memory:{person}"))
    assert row is not None
    return str(row.thread_id)


async def asked(c: Core, *texts: str, person: str = ANN) -> None:
    for text in texts:
        await c.say(text, person)
        await c.answered()


async def test_an_idle_thread_is_condensed_once_until_it_is_used_again(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await asked(c, "one", "two")
        await c.clock.advance(DAY - 10)
        assert await condense(c) == []
        await c.clock.advance(20)
        assert await condense(c) == [(("1", "1"), False), (("1", "1"), True)]
        assert await condense(c) == []
        await asked(c, "three")
        await c.clock.advance(DAY + 10)
        assert await condense(c) == [(("2", "2"), False), (("2", "2"), True)]
        await c.restart()
        assert await condense(c) == []


async def test_what_undo_and_retry_go_back_to_is_kept(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await asked(c, "one", "two", "three", "/undo")
        assert c.harness.rewinds == ["2"]
        await c.clock.advance(DAY + 10)
        assert await condense(c) == [(("1", "1"), False), (("1", "1"), True)]
        await asked(c, "/undo")
        assert c.harness.rewinds == ["2", "1"]


async def test_once_its_runs_are_forgotten_nothing_is_kept_beside_the_newest_state(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await asked(c, "one", "two")
        await asked(c, "other", person=BOB)
        await c.clock.advance(DAY + 10)
        assert len(await condense(c)) == 4
        await c.say("/status", BOB)  # no run
        assert await pruned(c.store, runs, c.clock.now() - timedelta(days=1)) == 3
        assert await condense(c) == [((), False), ((), False), ((), True), ((), True)]
        assert await condense(c) == []


@pytest.mark.slow
async def test_a_thread_in_which_something_runs_or_waits_is_left_alone(tmp_path: Path) -> None:
    async with core(tmp_path, seconds=3 * DAY) as c:
        for person in (ANN, BOB):
            await asked(c, "one", person=person)
        at_work = c.harness.hold("two")
        await c.say("two", ANN)
        await c.say("behind it", ANN)
        await c.clock.advance(DAY + 10)
        assert await condense(c) == [((), False), ((), True)]
        assert {thread for thread, _, _ in c.harness.condensed} == {await thread_of(c, BOB)}
        at_work.set()


async def test_who_comes_back_between_the_copy_and_the_rest_is_waited_for(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await asked(c, "one", "two")
        await c.clock.advance(DAY + 10)
        condensing = asyncio.create_task(upkeep.condense(c.store, c.clock, c.parts.agent.harness, c.manager))
        await c.clock.advance(upkeep.READ_SECONDS / 2)
        assert [drop for _, _, drop in c.harness.condensed] == [False]
        at_work = c.harness.hold("three")
        await c.say("three", ANN)
        await c.clock.advance(upkeep.READ_SECONDS)
        await condensing
        assert [drop for _, _, drop in c.harness.condensed] == [False], "it runs"
        at_work.set()
        await c.answered()
        await c.clock.advance(DAY + 10)
        assert await condense(c) == [(("2", "2"), False), (("2", "2"), True)]


async def test_one_that_cannot_be_condensed_keeps_no_other_from_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with core(tmp_path) as c:
        for person in (ANN, BOB):
            await asked(c, "one", person=person)
        broken, works = await thread_of(c, ANN), c.harness.condense

        async def condense_one(thread_id: str, keep: tuple[str, ...], *, drop: bool) -> None:
            if thread_id == broken:
                raise ThreadTooLarge("it cannot be read")
            await works(thread_id, keep, drop=drop)

        monkeypatch.setattr(c.harness, "condense", condense_one)
        await c.clock.advance(DAY + 10)
        assert await condense(c) == [((), False), ((), True)]
        assert "it cannot be read" in caplog.text
        monkeypatch.undo()
        assert await condense(c) == [((), False), ((), True)], "the other one, in the next hour"


async def test_what_programs_write_is_condensed_as_well_and_grows_as_old_as_what_is_asked(tmp_path: Path) -> None:
    async with served(tmp_path) as c:
        program, path = await c.program(PERSON), "/api/langgraph/threads"
        note = {"values": {"messages": [{"role": "user", "content": "Noted."}]}}
        empty, written = [f"{path}/{(await program.post(path, json={})).json()['thread_id']}" for _ in range(2)]
        for _ in range(2):
            assert (await program.post(f"{written}/state", json=note)).status_code == 200
            assert await condense(c) == []
            await c.clock.advance(DAY + 10)
            assert await condense(c) == [((), False), ((), True)]
            assert await condense(c) == []
        assert (await program.post(f"{written}/copy")).status_code == 200
        await c.clock.advance(DAY + 10)
        assert await condense(c) == [((), False), ((), True)]
        later = c.clock.now() + timedelta(days=1)
        assert len(await c.store.read(lambda tx: forgetting.untouched(tx, later))) == 2
        assert (await program.delete(written)).status_code == (await program.delete(empty)).status_code == 204
        await c.answered()
        assert len(await c.store.read(lambda tx: forgetting.untouched(tx, later))) == 1, "its copy"
