"""What is done again and again goes on after an error, whatever it was."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.clock import SystemClock
from bot.delivery.presented import Presented
from bot.operations.upkeep import INTERVAL_SECONDS, prune
from bot.schedule.timer import Timer
from bot.store import Store
from bot.store.retrying import RetryingStore
from bot.tasks import Tasks
from tests.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    import pytest


async def test_an_error_ends_neither_the_hours_upkeep_nor_that_of_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = tmp_path / "spool"
    spool.write_text("no folder, so that listing it is an OSError")
    clock, done = VirtualClock(), asyncio.Event()

    async def defect() -> None:
        raise ValueError("of somebody else")

    async def last() -> None:
        done.set()

    store = await Store.open(f"sqlite:///{tmp_path}/antler.db", clock=SystemClock())
    tasks, presented = Tasks("test"), Presented(spool, Tasks("test"), lambda account: None)
    tasks.spawn("prune", prune(store, clock, lambda: timedelta(days=30), presented, defect, last))
    for _ in range(3):
        async with asyncio.timeout(20):
            await done.wait()
        done.clear()
        await clock.settle()
        await clock.advance(INTERVAL_SECONDS)
    await tasks.cancel()
    await store.close()
    told = [record.getMessage() for record in caplog.records]
    assert "removing delivered files: failed, will be tried again: [Errno 20] Not a directory" in told[0]
    assert told[1] == "upkeep: failed, will be tried again"


class Broken(RetryingStore):
    """Its first read meets a defect."""

    reads = 0

    async def read(self, query: Callable[[Any], Any]) -> Any:
        self.reads += 1
        if self.reads == 1:
            raise ValueError("of a row")
        return await super().read(query)


async def test_reminders_go_on_after_a_row_that_cannot_be_read(tmp_path: Path) -> None:
    clock = VirtualClock()
    store = await Store.open(f"sqlite:///{tmp_path}/antler.db", clock=SystemClock())
    broken, tasks = Broken(store, clock), Tasks("test")

    async def originate(event: object, take: object) -> None:
        raise AssertionError("nothing is due")

    tasks.spawn("schedules", Timer(broken, originate, clock, lambda: ["memory"]).serve())
    await clock.advance(11)
    assert broken.reads == 2
    assert len(tasks) == 1
    await tasks.cancel()
    await store.close()
