"""Space that deleted rows leave in SQLite's files: given back to the disk in small steps, or at once by a rewrite."""

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
"""PRAGMA auto_vacuum of files whose free pages can be cut off. SQLite has to know it before the first table is made."""
STEP = 256
"""Pages of one transaction: 1 MB, some 10 ms, in which nobody else writes."""
PAUSE_SECONDS = 0.1
SURPLUS = "SELECT freelist_count - page_count / 10 - 2000 FROM pragma_freelist_count, pragma_page_count"
"""Free pages above those that the next rows take soon: a tenth of the file, and 8 MB."""
SMALLEST = 8_000_000
"""Bytes of a file that may have a surplus. A smaller one may be in the making: open here, it could not be given its
write-ahead log, as SQLite waits for nobody there."""


async def give_back(files: Iterable[Path], clock: Clock) -> None:
    """Cut the surplus of free pages off the files' ends, while others read and write. A file of an older Antler is
    rewritten for that once, where that takes less than a second; a larger one is left alone until `compact`."""
    for file in files:
        while await asyncio.to_thread(_step, file):
            await clock.sleep(PAUSE_SECONDS)


def _step(file: Path) -> bool:
    """Give a little back; whether there is more. Raises sqlite3.Error."""
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
            database.execute("PRAGMA incremental_vacuum(1)")  # of more pages the driver would free the first alone
        database.execute("COMMIT")
    return bool(surplus > STEP)


def compact(file: Path) -> tuple[int, int]:
    """Rewrite a file that nobody else uses; returns its size before and after. Raises StoreUnavailable, as without
    room for two more of it; then it is as it was."""
    before = file.stat().st_size
    if shutil.disk_usage(file.parent).free < 2 * before:
        raise StoreUnavailable(f"{file}: while it is rewritten {2 * before / 1e9:.1f} GB must be free there")
    os.environ["SQLITE_TMPDIR"] = str(file.parent)  # else a small /tmp might not hold it
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
    database.execute("PRAGMA auto_vacuum=INCREMENTAL")  # from the next VACUUM on, where it is not so yet
    return database


def _is_incremental(database: sqlite3.Connection) -> bool:
    ((mode,),) = database.execute("PRAGMA auto_vacuum")
    return bool(mode == INCREMENTAL)
