"""kill -9 in the middle of a load: what was confirmed is there, and the file is sound."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
from pathlib import Path

import pytest

from bot.clock import SystemClock
from bot.store import Store, inbox
from bot.store.inbox import ADD_EVENTS
from tests.bot.store.samples import message

KILLS = 3
CONFIRMED = 150


async def load(url: str) -> None:
    """The child: stores events from many tasks and prints the id of each that was confirmed."""
    store = await Store.open(url, clock=SystemClock())

    async def feed(task: int) -> None:
        for number in range(100_000):
            (row,) = await store.add(ADD_EVENTS, [message(f"{os.getpid()}:{task}:{number}", text="x" * 300)])
            assert row is not None
            os.write(1, f"{row.id}\n".encode())

    await asyncio.gather(*(feed(task) for task in range(20)))


async def killed_under_load(url: str) -> set[int]:
    """Run the child until it confirmed some, kill it, and return all that it confirmed."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.bot.store.test_crash",
        url,
        cwd=Path(__file__).parents[3],
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdout is not None
    lines = [await child.stdout.readline() for _ in range(CONFIRMED)]
    child.send_signal(signal.SIGKILL)
    lines += (await child.stdout.read()).splitlines()
    await child.wait()
    return {int(line) for line in lines}


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_kill_9_loses_no_confirmed_event(url: str, tmp_path: Path) -> None:
    confirmed: set[int] = set()
    async with asyncio.timeout(60):
        for _ in range(KILLS):
            confirmed |= await killed_under_load(url)

    store = await Store.open(url, clock=SystemClock())
    stored = {row.id for row in await store.read(inbox.unsettled)}
    await store.close()
    assert len(confirmed) >= KILLS * CONFIRMED
    assert confirmed <= stored
    file = sqlite3.connect(tmp_path / "antler.db")
    assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    file.close()


if __name__ == "__main__":
    asyncio.run(load(sys.argv[1]))
