"""What `MemoryStore` promises, wherever memories are kept: in memory, in files, in either database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from bot.clock import SystemClock
from bot.store import Store
from bot.store.memories import StoreMemories
from harness.memory.model import Fact, Memory
from harness.memory.store import FileMemoryStore
from tests.harness.memory.in_memory import InMemoryStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from harness.memory.store import MemoryStore

ANN, HOSTILE = "telegram:7", "telegram:../\u00e9/%2e%2e\n" + "x" * 300
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(params=["memory", "files", "sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MemoryStore]:
    if request.param == "memory":
        yield InMemoryStore()
    elif request.param == "files":
        yield FileMemoryStore(tmp_path / "users")
    else:
        file = f"sqlite:///{tmp_path}/antler.db"
        store = await Store.open(
            file if request.param == "sqlite" else request.getfixturevalue("postgres").database(), clock=SystemClock()
        )
        try:
            yield StoreMemories(store, SystemClock())
        finally:
            await store.close()


def memory(*texts: str) -> Memory:
    facts = [
        Fact(id=f"fact{number}", content=text, category="context", confidence=0.9, created_at=NOW, said_by=ANN)
        for number, text in enumerate(texts)
    ]
    return Memory(last_updated=NOW, facts=tuple(facts))


async def test_each_owner_has_one_of_their_own(kept: MemoryStore) -> None:
    assert await kept.load(ANN) == Memory()
    await kept.save(ANN, memory("likes pears", "喜欢梨"))
    await kept.save(HOSTILE, memory("likes figs"))
    await kept.save(ANN, memory("likes plums"))
    assert await kept.load(ANN) == memory("likes plums")
    assert await kept.load(HOSTILE) == memory("likes figs")
    assert await kept.load(ANN.upper()) == Memory()


async def test_the_list_says_of_whom_there_is_one_and_not_what(kept: MemoryStore) -> None:
    assert await kept.owners() == []
    await kept.save(HOSTILE, memory("likes figs"))
    await kept.save(ANN, memory("likes pears"))
    listed = await kept.owners()
    assert [stored.owner for stored in listed] == sorted([ANN, HOSTILE])
    assert [stored.size for stored in listed if stored.owner == ANN] == [len(memory("likes pears").to_json().encode())]
    assert all(stored.updated_at is not None for stored in listed)


async def test_what_agents_keep_for_themselves_stands_apart(kept: MemoryStore) -> None:
    await kept.save(HOSTILE, memory("likes figs"), "support")
    assert await kept.load(HOSTILE) == Memory()
    await kept.save(HOSTILE, memory("likes pears"))
    await kept.save(HOSTILE, memory("likes plums"), "sales")
    await kept.save(HOSTILE, memory("likes dates"), "support")
    await kept.save(ANN, memory("likes nuts"), "support")
    assert [await kept.load(HOSTILE, agent) for agent in ("", "sales", "support", "other")] == [
        *(memory("likes pears"), memory("likes plums"), memory("likes dates"), Memory())
    ]
    whose = [(stored.owner, stored.agent) for stored in await kept.owners()]
    assert whose == sorted([(ANN, "support"), (HOSTILE, ""), (HOSTILE, "sales"), (HOSTILE, "support")])
    assert [stored.agent for stored in await kept.owners(HOSTILE)] == ["", "sales", "support"]
    assert await kept.owners("telegram:8") == []
    assert await kept.delete(HOSTILE)
    assert await kept.load(HOSTILE, "support") == memory("likes dates")
    assert await kept.delete(HOSTILE, "support")
    assert not await kept.delete(HOSTILE, "support")
    assert [(stored.owner, stored.agent) for stored in await kept.owners()] == sorted(
        [(ANN, "support"), (HOSTILE, "sales")]
    )


async def test_what_is_deleted_is_gone(kept: MemoryStore) -> None:
    await kept.save(ANN, memory("likes pears"))
    await kept.save(HOSTILE, memory("likes figs"))
    assert await kept.delete(ANN)
    assert not await kept.delete(ANN)
    assert await kept.load(ANN) == Memory()
    assert await kept.load(HOSTILE) == memory("likes figs")
    assert [stored.owner for stored in await kept.owners()] == [HOSTILE]


@pytest.mark.parametrize("agent", ["", "support"])
async def test_one_replaces_what_it_had_read_and_nothing_else(kept: MemoryStore, agent: str) -> None:
    nothing, pears, figs = Memory(), memory("likes pears"), memory("likes figs")
    assert not await kept.replace(ANN, pears, figs, agent)
    assert await kept.owners() == []
    assert await kept.replace(ANN, nothing, pears, agent)
    assert not await kept.replace(ANN, nothing, figs, agent)
    assert not await kept.replace(ANN, figs, memory("likes nuts"), agent)
    assert await kept.load(ANN, agent) == pears
    assert await kept.replace(ANN, pears, figs, agent)
    assert not await kept.replace(ANN, pears, nothing, agent)
    assert await kept.load(ANN, agent) == figs
    assert await kept.replace(ANN, figs, nothing, agent)
    assert await kept.owners() == []
