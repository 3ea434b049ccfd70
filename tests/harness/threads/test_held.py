"""Steps that are held back: one transaction, in their order, before anything outside depends on them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from bot.store.sql import libpq_url
from harness.graph.state import thread_config
from harness.threads import held
from harness.threads.checkpoints import open_checkpoints
from tests.bench.commits import commits_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

    from harness.threads.checkpoints import Checkpoints

HERE = thread_config("t")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "checkpoints.db")
    return libpq_url(request.getfixturevalue("postgres").database())


@pytest.fixture
async def checkpoints(database: str) -> AsyncIterator[Checkpoints]:
    opened = await open_checkpoints(database)
    yield opened
    await opened.close()


@pytest.fixture
def commits(database: str) -> Callable[[], int]:
    return commits_of(database)


async def step(checkpoints: Checkpoints, config: RunnableConfig, value: Any) -> RunnableConfig:
    """What LangGraph writes of a step: what its task gave, and the checkpoint that comes of it."""
    if "checkpoint_id" in config["configurable"]:
        await checkpoints.saver.aput_writes(config, [("messages", value)], f"task {value}")
    return await checkpoints.saver.aput(config, empty_checkpoint(), {"source": "loop", "step": 1}, {})


async def test_steps_are_one_transaction_at_the_end(checkpoints: Checkpoints, commits: Callable[[], int]) -> None:
    before = commits()
    async with checkpoints.holding.of("t"):
        first = await step(checkpoints, HERE, 1)
        last = await step(checkpoints, first, 2)
        assert commits() == before
    assert commits() == before + 1
    newest = await checkpoints.newest("t")
    assert newest is not None
    assert newest.config == last
    assert newest.parent_config == first
    earlier = await checkpoints.saver.aget_tuple(first)
    assert earlier is not None
    assert earlier.pending_writes == [("task 2", "messages", 2)]


async def test_after_settling_every_write_is_its_own(checkpoints: Checkpoints, commits: Callable[[], int]) -> None:
    async with checkpoints.holding.of("t") as steps:
        first = await step(checkpoints, HERE, 1)
        second = await step(checkpoints, first, 2)
        before = commits()
        await asyncio.gather(*(steps.settle() for _ in range(3)))  # tools that are called at once
        assert commits() == before + 1
        await step(checkpoints, second, 3)
        assert commits() == before + 3
    assert commits() == before + 3


async def test_who_reads_the_thread_sees_what_is_held(checkpoints: Checkpoints) -> None:
    async with checkpoints.holding.of("t"):
        first = await step(checkpoints, HERE, 1)
        newest = await checkpoints.newest("t")
        assert newest is not None
        assert newest.config == first
        second = await step(checkpoints, first, 2)
        assert [saved.config async for saved in checkpoints.saver.alist(HERE)] == [second, first]


async def test_another_thread_is_written_at_once(checkpoints: Checkpoints, commits: Callable[[], int]) -> None:
    async with checkpoints.holding.of("t"):
        await step(checkpoints, HERE, 1)
        before = commits()
        await step(checkpoints, thread_config("u"), 1)
        assert commits() == before + 1


async def test_a_stop_writes_what_is_held(checkpoints: Checkpoints) -> None:
    held = asyncio.Event()

    async def run() -> None:
        async with checkpoints.holding.of("t"):
            await step(checkpoints, HERE, 1)
            held.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(run())
    await held.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await checkpoints.newest("t") is not None


async def test_a_failure_writes_what_is_held(checkpoints: Checkpoints) -> None:
    async def run() -> None:
        async with checkpoints.holding.of("t"):
            await step(checkpoints, HERE, 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run()
    assert await checkpoints.newest("t") is not None


async def test_what_cannot_be_written_costs_nothing_before_it(checkpoints: Checkpoints) -> None:
    written: list[RunnableConfig] = []

    async def run() -> None:
        async with checkpoints.holding.of("t"):
            written.append(await step(checkpoints, HERE, 1))
            await step(checkpoints, written[0], "\ud800")

    with pytest.raises(UnicodeEncodeError):
        await run()
    newest = await checkpoints.newest("t")
    assert newest is not None
    assert (newest.config, newest.pending_writes) == (written[0], [])


async def test_a_stop_does_not_wait_for_room(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    checkpoints = await open_checkpoints(str(tmp_path / "checkpoints.db"))
    await checkpoints.run("PRAGMA max_page_count = 1", ())

    async def run() -> None:
        async with checkpoints.holding.of("t"):
            first = await step(checkpoints, HERE, 1)
            await step(checkpoints, first, "long " * 10_000)
            await asyncio.Event().wait()

    running = asyncio.create_task(run())
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 10)
    assert "last steps not written" in caplog.text
    assert await checkpoints.newest("t") is None
    await checkpoints.close()


async def test_a_stop_does_not_wait_for_a_database_that_hangs(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "LAST_SECONDS", 0.05)

    async def hang(steps: Sequence[held.Step]) -> None:
        await asyncio.Event().wait()

    async def run() -> None:
        async with held.Holding(hang, hang).of("t"):
            await asyncio.Event().wait()

    running = asyncio.create_task(run())
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait({running}, timeout=10)
    assert running.cancelled()
    assert "last steps not written: TimeoutError" in caplog.text
