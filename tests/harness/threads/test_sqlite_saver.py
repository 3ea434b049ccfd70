"""The one-threaded saver: what LangGraph's own saver reads and writes, wholly or not at all."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiosqlite
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from harness.graph.state import thread_config
from harness.threads.sqlite_saver import ThreadedSqliteSaver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[ThreadedSqliteSaver]:
    saver = await ThreadedSqliteSaver.open(path, lambda _: None)
    try:
        yield saver
    finally:
        await saver.close()


async def put(saver: ThreadedSqliteSaver) -> RunnableConfig:
    return await saver.aput(thread_config("t"), empty_checkpoint(), {"source": "input", "step": -1}, {})


async def test_it_writes_what_langgraphs_saver_reads(tmp_path: Path) -> None:
    async with opened(tmp_path / "c.db") as saver:
        config = await put(saver)
        await saver.aput_writes(config, [("messages", "hello")], "task")
        ours = await saver.aget_tuple(config)
        assert [found async for found in saver.alist(config)] == [ours]
    async with aiosqlite.connect(tmp_path / "c.db") as connection:
        assert await AsyncSqliteSaver(connection).aget_tuple(config) == ours
    assert ours is not None
    assert ours.pending_writes == [("task", "messages", "hello")]


async def test_of_writes_that_fail_nothing_stays(tmp_path: Path) -> None:
    async with opened(tmp_path / "c.db") as saver:
        config = await put(saver)
        with pytest.raises(UnicodeEncodeError):
            await saver.aput_writes(config, [("good", 1), ("\ud800", 2)], "task")
        await saver.aput_writes(config, [("other", 3)], "task-2")
        found = await saver.aget_tuple(config)
    assert found is not None
    assert found.pending_writes == [("task-2", "other", 3)]


async def test_a_full_disk_is_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(tmp_path / "c.db") as saver:
        config = await put(saver)
        await saver.run("PRAGMA max_page_count = 1", ())
        waiting = asyncio.create_task(saver.aput_writes(config, [("messages", "long " * 10_000)], "task"))
        await asyncio.sleep(0)  # it stands in the saver's thread before the next one
        await saver.run("PRAGMA max_page_count = 1000000", ())
        await asyncio.wait_for(waiting, 10)
        found = await saver.aget_tuple(config)
    said = [record.getMessage() for record in caplog.records if record.name == "harness.threads.sqlite_saver"]
    assert len(said) == 2
    assert "database or disk is full" in said[0]
    assert "written again" in said[1]
    assert found is not None
    assert found.pending_writes == [("task", "messages", "long " * 10_000)]


async def test_a_deleted_thread_leaves_the_others_alone(tmp_path: Path) -> None:
    async with opened(tmp_path / "c.db") as saver:
        await put(saver)
        other = await saver.aput(thread_config("u"), empty_checkpoint(), {"source": "input", "step": -1}, {})
        await saver.adelete_thread("t")
        assert await saver.aget_tuple(thread_config("t")) is None
        assert await saver.aget_tuple(other) is not None


async def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "c.db").write_bytes(b"this is no database, however long it may be" * 100)
    with pytest.raises(Exception, match="not a database"):
        await ThreadedSqliteSaver.open(tmp_path / "c.db", lambda _: None)
