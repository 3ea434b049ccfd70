"""Space that deleted rows leave in SQLite's files, released in small steps, or at once by a rewrite."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from bot.store.errors import StoreUnavailable
from bot.store.writer import FILE_SIZE, VACUUMED_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from channels.base import Clock

INCREMENTAL = 2
"""PRAGMA auto_vacuum of files whose free pages can be truncated. Must be set before the first table is created."""
STEP = 256
"""Pages per transaction: 1 MB, about 10 ms during which nothing else can write."""
PAUSE_SECONDS = 0.1
SURPLUS = "SELECT freelist_count - page_count / 10 - 2000 FROM pragma_freelist_count, pragma_page_count"
"""Free pages beyond those kept for upcoming rows: a tenth of the file, and 8 MB."""
SMALLEST = 8_000_000
"""Smallest file in bytes that may have a surplus. A smaller one may be in creation: while it is open here, it could not
be switched to a write-ahead log, as SQLite does not wait for that."""


async def give_back(files: Iterable[Path], clock: Clock) -> None:
    """Truncate surplus free pages from the files' ends, concurrently with readers and writers. A file of an older
    Antler is first rewritten once if that takes less than a second; a larger one is left alone until `compact`."""
    for file in files:
        while await asyncio.to_thread(_step, file):
            await clock.sleep(PAUSE_SECONDS)


def _step(file: Path) -> bool:
    """Release a little space; return whether there is more. Raises sqlite3.Error."""
    if not file.exists() or file.stat().st_size < SMALLEST:
        return False
    with closing(_open(file)) as database:
        if not _is_incremental(database):
            ((size,),) = database.execute(FILE_SIZE)
            if size > VACUUMED_BYTES:
                return False
            database.execute("VACUUM")
        ((surplus,),) = database.execute(SURPLUS)
        if surplus <= 0:
            return False
        database.execute("BEGIN IMMEDIATE")
        for _ in range(min(surplus, STEP)):
            database.execute("PRAGMA incremental_vacuum(1)")  # given more pages, the driver would free only the first
        database.execute("COMMIT")
    return bool(surplus > STEP)


def compact(file: Path) -> tuple[int, int]:
    """Rewrite a file that nothing else uses; return its size before and after. Raises StoreUnavailable, e.g. without
    free space of twice its size; the file is then unchanged."""
    before = file.stat().st_size
    if shutil.disk_usage(file.parent).free < 2 * before:
        raise StoreUnavailable(f"{file}: rewriting it needs {2 * before / 1e9:.1f} GB of free space there")
    os.environ["SQLITE_TMPDIR"] = str(file.parent)  # a small /tmp might not have enough room
    try:
        with closing(_open(file)) as database:
            database.execute("VACUUM")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{file}: {error}") from error
    return before, file.stat().st_size


def _open(file: Path) -> sqlite3.Connection:
    database = sqlite3.connect(file, isolation_level=None)
    database.execute("PRAGMA secure_delete=ON")
    database.execute("PRAGMA auto_vacuum=INCREMENTAL")  # if not set yet, takes effect with the next VACUUM
    return database


def _is_incremental(database: sqlite3.Connection) -> bool:
    ((mode,),) = database.execute("PRAGMA auto_vacuum")
    return bool(mode == INCREMENTAL)
