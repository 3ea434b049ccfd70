"""Background tasks: named, held, their errors seen, none left behind."""

from __future__ import annotations

import asyncio

import pytest

from bot.tasks import Tasks


async def test_an_error_is_logged_with_the_tasks_name_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    tasks, done = Tasks("gateway"), asyncio.Event()

    async def fails() -> None:
        raise ValueError("broken")

    async def works() -> None:
        done.set()

    tasks.spawn("one", fails())
    tasks.spawn("two", works())
    await asyncio.wait_for(tasks.drain(), 5)
    assert done.is_set()
    assert len(tasks) == 0
    (record,) = caplog.records
    assert record.getMessage() == "gateway:one failed"
    assert record.exc_info


@pytest.mark.parametrize("way", ["drain", "cancel"])
async def test_what_is_spawned_meanwhile_ends_too(way: str) -> None:
    tasks, ended = Tasks("gateway"), []

    async def chain(left: int) -> None:
        try:
            if way == "cancel":
                await asyncio.Future()
        finally:
            ended.append(left)
            if left:
                tasks.spawn(f"{left}", chain(left - 1))

    tasks.spawn("first", chain(3))
    await asyncio.sleep(0)
    await asyncio.wait_for(tasks.drain() if way == "drain" else tasks.cancel(), 5)
    assert len(tasks) == 0
    assert ended[0] == 3
