"""Nothing is left after a planned stop: what every flow test checks of its gateway, once that has ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from typing import TYPE_CHECKING

from bot.control import SOCKET
from bot.lock import DataDirLock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.flow.gateway import World

DATABASE = "antler.db"
CLOSED_SECONDS = 5.0


async def check(world: World) -> None:
    """Raises AssertionError for anything that the stop should have put away."""
    assert "left behind:" not in world.log, world.log
    check_data(world.data_dir, world.found)
    await all_closed(world.telegram.open_connections)
    await all_closed(world.model.open_connections)


def logs_of(folder: Path) -> set[tuple[Path, int]]:
    """What databases in the folder were not checkpointed, as it was written last."""
    logs = [path for pattern in ("*-wal", "*-journal") for path in folder.glob(pattern)]
    return {(path, path.stat().st_mtime_ns) for path in logs if path.stat().st_size}


def check_data(folder: Path, found: set[tuple[Path, int]]) -> None:
    """The data folder is closed, complete and free for the next process.

    found: of a killed process, before this one was started; it may have stopped before it needed the agent's database.
    """
    assert not (folder / SOCKET).exists()
    with DataDirLock(folder):
        pass
    logs = {path.name for path, _ in logs_of(folder) - found}
    assert not logs, f"not checkpointed: {logs}"
    uploads = {str(path) for path in folder.glob("threads/*/user-data/uploads/*")}
    if (folder / DATABASE).exists():
        stray = uploads - _given_to_runs(folder / DATABASE)
        assert not stray, f"files that no run was given: {stray}"


def _given_to_runs(database: Path) -> set[str]:
    with contextlib.closing(sqlite3.connect(f"file:{database}?immutable=1", uri=True)) as connection:
        inputs = [json.loads(text) for (text,) in connection.execute("select input from runs")]
    files = [file for run_input in inputs for file in run_input["files"]]
    return {path for file in files for path in (file["path"], file.get("text_path")) if path is not None}


async def all_closed(open_connections: Callable[[], Awaitable[int]]) -> None:
    async with asyncio.timeout(CLOSED_SECONDS):
        while await open_connections():
            pass
