"""Space of deleted rows goes back to the disk: in steps beside a process that writes, or by a rewrite."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from bot.cli.maintenance import compact
from bot.clock import SystemClock
from bot.control.lock import DataDirLock
from bot.settings import Settings
from bot.store import Store, accounts, space, sql
from harness.threads.checkpoints import open_checkpoints
from tests.bot.store.samples import NOW

if TYPE_CHECKING:
    from pathlib import Path

PAGES = 5000


def asked(file: Path, *statements: str) -> Any:
    """What the last of these statements says."""
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        for statement in statements:
            found = database.execute(statement).fetchall()
        return found[0][0] if found else None


def fill_and_empty(file: Path) -> None:
    """Leave PAGES free pages in a file, before rows that stay."""
    rows = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {PAGES}) SELECT"
    asked(file, "CREATE TABLE big (i, filler)", f"INSERT INTO big {rows} i, zeroblob(3900) FROM n")
    asked(file, f"INSERT INTO big {rows} -i, zeroblob(100) FROM n", "DELETE FROM big WHERE i > 0")


@pytest.mark.parametrize("made_before", [False, True])
async def test_free_pages_go_while_others_write(tmp_path: Path, made_before: bool) -> None:
    file = tmp_path / "antler.db"
    if made_before:
        asked(file, "PRAGMA journal_mode=WAL", "CREATE TABLE old (x)")
    store = await Store.open(f"sqlite:///{file}", clock=SystemClock())
    fill_and_empty(file)
    written: list[str] = []

    class Writing(SystemClock):
        async def sleep(self, seconds: float) -> None:
            """Between two steps: each is short, and leaves a file that can be written to."""
            name = f"account{len(written)}"
            await store.write(lambda tx: accounts.bind(tx, name, "telegram", name, NOW))
            written.append(name)

    before = asked(file, "PRAGMA page_count")
    await space.give_back([file, tmp_path / "none.db"], Writing())
    await store.close()
    left, free = asked(file, "PRAGMA page_count"), asked(file, "PRAGMA freelist_count")
    if made_before:  # so small a file is rewritten, once
        assert free == 0
    else:
        assert 2000 <= free <= 2000 + before / 10
        assert len(written) >= 5
    assert left < before - PAGES / 4
    assert asked(file, "PRAGMA auto_vacuum") == space.INCREMENTAL
    assert asked(file, "PRAGMA integrity_check") == "ok"
    assert asked(file, "SELECT count(*) FROM big") == PAGES
    assert asked(file, "SELECT count(*) FROM accounts") == len(written)


async def test_a_large_file_of_before_waits_for_compact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings.model_validate({"data_dir": tmp_path, "channels": {"console": {}}})
    file = settings.database_files[0]
    fill_and_empty(file)
    size = file.stat().st_size
    monkeypatch.setattr(space, "VACUUMED_BYTES", 1_000_000)
    await space.give_back(settings.database_files, SystemClock())
    assert file.stat().st_size == size
    with DataDirLock(tmp_path):
        assert compact(settings) == 1
    assert compact(settings) == 0
    told = capsys.readouterr()
    assert "antler.db: 0.6 MB, was 21" in told.out
    assert "is in use by process" in told.err
    assert file.stat().st_size < size / 10
    assert asked(file, "PRAGMA auto_vacuum") == space.INCREMENTAL


async def test_files_that_are_made_now_can_be_cut_and_connections_keep_few_pages(tmp_path: Path) -> None:
    store = await Store.open(f"sqlite:///{tmp_path}/antler.db", clock=SystemClock())
    checkpoints = await open_checkpoints(str(tmp_path / "checkpoints.db"))
    for name in ("antler.db", "checkpoints.db"):
        assert asked(tmp_path / name, "PRAGMA auto_vacuum") == space.INCREMENTAL
    assert await store.write(lambda tx: tx.exec_driver_sql("PRAGMA journal_size_limit").scalar()) == sql.LOG_BYTES
    assert await checkpoints.run("PRAGMA journal_size_limit", ()) == [(sql.LOG_BYTES,)]
    # Of each connection's pages less is kept than the 2000 KB of SQLite's default.
    assert await store.write(lambda tx: tx.exec_driver_sql("PRAGMA cache_size").scalar()) == -2 * sql.CACHE_KB
    assert await store.read(lambda tx: tx.exec_driver_sql("PRAGMA cache_size").scalar()) == -sql.CACHE_KB
    assert await checkpoints.run("PRAGMA cache_size", ()) == [(-sql.CACHE_KB,)]
    await checkpoints.close()
    await store.close()


def test_postgresql_does_it_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = {"url": "postgresql://antler@127.0.0.1/antler"}
    settings = Settings.model_validate({"data_dir": tmp_path, "channels": {"console": {}}, "database": url})
    assert settings.database_files == ()
    assert compact(settings) == 1
    assert "autovacuum" in capsys.readouterr().err


async def test_a_file_that_is_just_being_made_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "checkpoints.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as making:
        making.execute("CREATE TABLE checkpoints (x)")
        making.execute("BEGIN EXCLUSIVE")
        await space.give_back([file], SystemClock())
