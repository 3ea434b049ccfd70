"""Keepers of several processes on one store, a gateway's and a worker's: what a person decides at one holds at once at
the other, and neither takes away what the other wrote."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bot.memory.keeper import MemoryKeeper
from bot.process.equipment import Equipment
from bot.redaction import Redactor
from bot.settings import Settings
from bot.store import Store, runs
from bot.store.memories import StoreMemories
from bot.store.retrying import RetryingStore
from bot.tasks import Tasks
from harness.memory.config import MemorySettings
from harness.memory.model import Memory
from harness.memory.store import MemoryUnavailable, NotKept
from tests.bot.store.samples import OWNER, run_row

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from harness.context import RunContext
    from harness.ports import Steering

CONTEXT = run_row().context


class Overtaken(StoreMemories):
    """The memories as one process sees them. meanwhile: what others do, once each, before it writes what it read."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, store.clock)
        self.meanwhile: list[Callable[[], Awaitable[object]]] = []

    async def replace(self, owner: str, known: Memory, memory: Memory, agent: str = "") -> bool:
        if self.meanwhile:
            await self.meanwhile.pop(0)()
        return await super().replace(owner, known, memory, agent)


class Process(MemoryKeeper):
    def __init__(self, store: Store) -> None:
        self.memories = Overtaken(store)
        super().__init__(self.memories, store, MemorySettings(), alone=False)


@pytest.fixture
def gateway(store: Store) -> Process:
    return Process(store)


@pytest.fixture
async def worker(store: Store, url: str) -> AsyncIterator[Process]:
    """On PostgreSQL with connections of its own; SQLite has one writer at all."""
    if url.startswith("sqlite"):
        yield Process(store)
        return
    joined = await Store.join(url, clock=store.clock, check=lambda tx: None)
    try:
        yield Process(joined)
    finally:
        await joined.close()


async def told(keeper: MemoryKeeper, ctx: RunContext = CONTEXT) -> list[str]:
    return [fact.content for fact in (await keeper.recalled(ctx)).memory.facts]


async def at_work(store: Store) -> RunContext:
    """A run that began just now."""
    row = replace(run_row(), created_at=store.clock.now())
    await store.write(lambda tx: runs.open(tx, row))
    return row.context


def no_agent() -> Steering:
    raise AssertionError("no agent is made here")


def equipped(store: Store, folder: Path, *, workers: bool) -> MemoryKeeper:
    """The keeper of a process of an installation on PostgreSQL."""
    settings = Settings.model_validate(
        {
            "data_dir": folder,
            "channels": {"console": {}},
            "sandbox": {"use": "off"},
            "database": {"url": "postgresql://host/db"},
            "workers": {"enabled": workers},
        }
    )
    patient, tasks = RetryingStore(store, store.clock), Tasks("test")
    has = Equipment(settings, patient, Redactor([]), tasks, steering=no_agent, due=lambda: None)
    return has.memory.book


async def test_a_worker_hears_that_a_person_turned_the_memory_off_and_on(store: Store, tmp_path: Path) -> None:
    gateway, worker = (equipped(store, tmp_path, workers=True) for _ in range(2))
    await worker.remember(CONTEXT, "c1", "Ann likes pears", "preference")
    assert await told(worker) == ["Ann likes pears"]
    await gateway.set_enabled(OWNER, False)
    recalled = await worker.recalled(CONTEXT)
    assert (recalled.memory, recalled.changed) == (Memory(), 1)
    with pytest.raises(NotKept, match="turned off"):
        await worker.remember(CONTEXT, "c2", "Ann likes figs", "preference")
    await gateway.set_enabled(OWNER, True)
    assert await told(worker) == ["Ann likes pears"]


async def test_a_worker_hears_that_a_person_had_something_forgotten(
    store: Store, gateway: Process, worker: Process
) -> None:
    ctx = await at_work(store)
    await worker.remember(ctx, "c1", "Ann likes pears", "preference")
    await gateway.forget_all(OWNER)
    with pytest.raises(NotKept, match="forgotten"):
        await worker.remember(ctx, "c2", "Ann likes pears", "preference")
    assert (await worker.recalled(ctx)).changed == 1
    assert await told(gateway) == []


async def test_a_process_that_is_alone_does_not_ask_at_each_turn(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = equipped(store, tmp_path, workers=False)
    state = await book.state(OWNER)
    monkeypatch.delattr(RetryingStore, "read")
    assert await book.state(OWNER) == state


async def test_what_two_remember_at_the_same_time_is_kept_of_both(
    store: Store, gateway: Process, worker: Process
) -> None:
    names = [f"Ann has the number {number}" for number in range(8)]
    adding = [gateway.add(OWNER, name, name, OWNER) for name in names[:4]]
    await asyncio.gather(*adding, *(worker.remember(CONTEXT, name, name, "context") for name in names[4:]))
    assert sorted(await told(gateway)) == names


@pytest.mark.parametrize("known", [[], ["Ann works in Oslo"]], ids=["empty", "known"])
async def test_what_a_worker_remembers_while_the_gateway_writes_is_not_lost(
    gateway: Process, worker: Process, known: list[str]
) -> None:
    for text in known:
        await gateway.add(OWNER, text, text, OWNER)
    gateway.memories.meanwhile = [lambda: worker.remember(CONTEXT, "c1", "Ann likes pears", "preference")]
    await gateway.add(OWNER, "e1", "Ann has a cat", OWNER)
    assert await told(gateway) == [*known, "Ann likes pears", "Ann has a cat"]


async def test_a_fact_is_edited_in_the_memory_as_it_is_by_then(gateway: Process, worker: Process) -> None:
    fact = await gateway.add(OWNER, "e1", "Ann works in Oslo", OWNER)
    gateway.memories.meanwhile = [lambda: worker.remember(CONTEXT, "c1", "Ann likes pears", "preference")]
    assert await gateway.edit(OWNER, fact.id, "Ann works in Bergen", OWNER) is not None
    assert await told(gateway) == ["Ann works in Bergen", "Ann likes pears"]


async def test_what_a_person_forgets_is_gone_and_what_a_worker_adds_meanwhile_is_not(
    store: Store, gateway: Process, worker: Process
) -> None:
    fact = await gateway.add(OWNER, "e1", "Ann works in Oslo", OWNER)
    await gateway.add(OWNER, "e2", "Ann has a cat", OWNER)
    gateway.memories.meanwhile = [lambda: worker.remember(CONTEXT, "c1", "Ann likes pears", "preference")]
    await gateway.forget(OWNER, [fact.id])
    assert await told(gateway) == ["Ann has a cat", "Ann likes pears"]
    body = await StoreMemories(store, store.clock).load(OWNER)
    assert "Oslo" not in body.to_json()


async def test_a_worker_does_not_bring_back_what_was_forgotten_between_its_reading_and_its_writing(
    store: Store, gateway: Process, worker: Process
) -> None:
    fact = await gateway.add(OWNER, "e1", "Ann works in Oslo", OWNER)
    await gateway.add(OWNER, "e2", "Ann has a cat", OWNER)
    ctx = await at_work(store)
    worker.memories.meanwhile = [lambda: gateway.forget(OWNER, [fact.id])]
    with pytest.raises(NotKept, match="forgotten"):
        await worker.remember(ctx, "c1", "Ann likes pears", "preference")
    assert await told(gateway) == ["Ann has a cat"]


async def test_an_empty_memory_that_was_forgotten_meanwhile_stays_empty(
    store: Store, gateway: Process, worker: Process
) -> None:
    ctx = await at_work(store)
    worker.memories.meanwhile = [lambda: gateway.forget_all(OWNER)]
    with pytest.raises(NotKept, match="forgotten"):
        await worker.remember(ctx, "c1", "Ann likes pears", "preference")
    assert await told(gateway) == []


async def test_who_is_overtaken_for_ever_says_so(gateway: Process, worker: Process) -> None:
    gateway.memories.meanwhile = [
        lambda number=number: worker.add(OWNER, f"e{number}", f"Ann has the number {number}", OWNER)  # type: ignore[misc]
        for number in range(100)
    ]
    with pytest.raises(MemoryUnavailable):
        await gateway.add(OWNER, "e", "Ann has a cat", OWNER)
    assert "Ann has a cat" not in await told(worker)
