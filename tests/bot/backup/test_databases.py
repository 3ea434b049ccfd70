"""Copies of databases that are written to meanwhile."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select

from bot.backup import databases
from bot.clock import SystemClock
from bot.settings import Settings
from bot.store import Store, conversations, knowledge, outbox, worker_runs, workers
from bot.store.errors import StoreBusy, StoreNewer, StoreUnavailable
from bot.store.sql import libpq_url, to_json
from bot.store.tables import outbox as outbox_table
from bot.workers import queue
from channels.message import OUTBOUND_MESSAGE, Address, OutboundFile, OutboundMessage
from harness.knowledge.embeddings import unit
from harness.knowledge.passages import Passage

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection

    from tests.simulators.postgres import PostgresServer

NASTY = "tab\there \\N \\. \u2028 \U0001f600 'quotes' \"more\"\nand a line"


def untold(name: str, size: int) -> None:
    """Nobody looks at the progress."""


def settings_of(folder: Path, url: str | None = None) -> Settings:
    config = {"channels": {"console": {}}, "data_dir": folder}
    return Settings.model_validate(config | ({"database": {"url": url}} if url else {}))


def test_both_files_of_sqlite_are_of_one_moment(tmp_path: Path) -> None:
    """A writer notes each number in the first file and then in the second, as a run does in reverse."""
    first, second, out = tmp_path / "antler.db", tmp_path / "checkpoints.db", tmp_path / "out"
    out.mkdir()
    for file in (first, second):
        with closing(sqlite3.connect(file)) as database, database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("CREATE TABLE seen (number INTEGER, padding BLOB)")
    with closing(sqlite3.connect(first)) as database, database:
        database.execute("CREATE TABLE alembic_version (version_num TEXT)")
        database.execute("INSERT INTO alembic_version VALUES ('1')")
    stop, began = threading.Event(), threading.Event()

    def write() -> None:
        with closing(sqlite3.connect(first)) as one, closing(sqlite3.connect(second)) as two:
            number = 0
            while not stop.is_set():
                number += 1
                for database in (two, one):
                    with database:
                        database.execute("INSERT INTO seen VALUES (?, randomblob(20000))", (number,))
                if number == 50:
                    began.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert began.wait(60)
        told: list[str] = []

        def waits(name: str, size: int) -> None:
            """What is written while it is copied is not in the copy."""
            if not told:
                with closing(sqlite3.connect(first)) as database:
                    database.execute("PRAGMA busy_timeout=10000")
                    database.execute("INSERT INTO seen VALUES (-1, NULL)")
                    database.commit()
            told.append(name)

        known = databases.snapshot(settings_of(tmp_path), out, waits)
    finally:
        stop.set()
        writer.join()
    assert known == databases.Databases(kind="sqlite", revision="1")
    newest = []
    for file in (out / "antler.db", out / "checkpoints.db"):
        with closing(sqlite3.connect(file)) as copy:
            assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            numbers = [number for (number,) in copy.execute("SELECT number FROM seen ORDER BY number")]
            assert numbers == list(range(1, len(numbers) + 1))
            newest.append(len(numbers))
    assert newest[1] >= newest[0]  # what the first holds, the second does too


def test_without_a_database_nothing_is_copied(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="`antler run` creates it"):
        databases.snapshot(settings_of(tmp_path), tmp_path, untold)
    assert list(tmp_path.iterdir()) == []


async def _with_a_reply(settings: Settings, path: Path) -> None:
    store = await Store.open(settings.database_url, clock=SystemClock())
    message = OutboundMessage(text=NASTY, files=(OutboundFile(path=path, name="a.txt"),), final=True)
    now, address = SystemClock().now(), Address(account="console", chat="1")
    body = to_json(OUTBOUND_MESSAGE, message)
    await store.write(lambda tx: outbox.finalize(tx, "r", address, None, None, body, now, "i"))
    await store.write(lambda tx: conversations.ensure(tx, "console:1", "console", "console:1", now))
    row = knowledge.DocumentRow(
        id="d", owner="console:1", collection="main", kind="file", place="a.md", added_at=now, read_at=now
    )

    def collected(tx: Connection) -> None:
        knowledge.put(tx, row)
        knowledge.put_passages(tx, "d", 1, [(Passage(NASTY), "harbour light")])
        knowledge.set_vectors(tx, "m", [(1, unit([3, 4]))])

    await store.write(collected)
    await store.close()


async def _reply(settings: Settings) -> OutboundMessage:
    store = await Store.open(settings.database_url, clock=SystemClock())
    body = await store.read(lambda tx: tx.scalar(select(outbox_table.c.body)))
    assert await store.read(lambda tx: conversations.load(tx, "console:1")) is not None
    scope = knowledge.Scope(("console:1",))
    assert await store.read(lambda tx: knowledge.by_words(tx, ["harbour"], scope)) == [1]
    nearest, _ = await store.read(lambda tx: knowledge.nearest_after(tx, 0, unit([3, 4]), "m", scope))
    assert [passage for _, passage in nearest] == [1]
    await store.close()
    assert body is not None
    return OUTBOUND_MESSAGE.validate_json(body)


@pytest.mark.postgres
async def test_postgresql_is_filled_as_it_was_and_never_over_another(postgres: PostgresServer, tmp_path: Path) -> None:
    first, second = (postgres.database().replace("+psycopg", "") for _ in range(2))
    old, new, out = settings_of(tmp_path / "old", first), settings_of(tmp_path / "new", second), tmp_path / "out"
    out.mkdir()
    await _with_a_reply(old, tmp_path / "old" / "spool" / "r" / "a.txt")
    known = databases.snapshot(old, out, untold)
    numbered = {table.name: table.numbers for table in known.tables if table.numbers}
    assert set(numbered["inbox"]) == {"id"}
    databases.check(known, new)

    databases.fill(new, known, out, replace=False)
    databases.move_paths(new, tmp_path / "old")
    reply = await _reply(new)
    assert (reply.text, reply.files[0].path) == (NASTY, tmp_path / "new" / "spool" / "r" / "a.txt")

    with pytest.raises(databases.NotEmpty, match="--force"):
        databases.fill(new, known, out, replace=False)
    (out / "outbox.copy").write_text("no row\n")
    with pytest.raises(StoreUnavailable, match="does not fit"):
        databases.fill(new, known, out, replace=True)
    assert (await _reply(new)).text == NASTY  # all or nothing
    store = await Store.open(new.database_url, clock=SystemClock())
    with pytest.raises(StoreBusy):
        databases.fill(new, known, out, replace=True)
    await store.close()


@pytest.mark.postgres
async def test_no_work_is_mistaken_for_that_of_workers_before_the_restore(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    """In another database the same numbers are of other jobs and workers."""
    first, second = (settings_of(tmp_path, postgres.database().replace("+psycopg", "")) for _ in range(2))
    for settings in (first, second):
        await queue.prepare(libpq_url(settings.database_url))
    store = await Store.open(first.database_url, clock=SystemClock())
    order = await store.write(lambda tx: worker_runs.order(tx, "r", "thread-1", attempt=1, since=1))
    at_work = {"id": 1, "name": "old", "process": "", "version": "", "facts": "", "asked": 0, "heard": 0, "answer": ""}
    await store.write(lambda tx: tx.execute(workers.workers.insert(), at_work))
    await store.close()
    known = databases.snapshot(first, tmp_path, untold)

    store = await Store.open(second.database_url, clock=SystemClock())
    other = await store.write(lambda tx: worker_runs.order(tx, "s", "thread-2", attempt=1, since=1))
    assert other.job == order.job
    await store.write(lambda tx: tx.exec_driver_sql("INSERT INTO procrastinate_workers DEFAULT VALUES"))
    await store.close()
    databases.fill(second, known, tmp_path, replace=True)
    store = await Store.open(second.database_url, clock=SystemClock())
    assert await store.read(lambda tx: worker_runs.load(tx, "r")) is None
    assert await store.read(workers.present) == []
    assert await store.read(lambda tx: tx.exec_driver_sql("SELECT id FROM procrastinate_workers").all()) == []
    await store.close()


async def test_paths_of_the_former_folder_are_followed_on_sqlite(tmp_path: Path) -> None:
    folder = tmp_path / 'a "new" ü'
    folder.mkdir()
    settings = settings_of(folder)
    await _with_a_reply(settings, tmp_path / "old" / "spool" / "a.txt")
    databases.move_paths(settings, tmp_path / "old")
    assert (await _reply(settings)).files[0].path == folder / "spool" / "a.txt"


def test_another_kind_and_a_newer_revision_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"set database\.url"):
        databases.check(databases.Databases(kind="postgresql", revision="1"), settings_of(tmp_path))
    with pytest.raises(StoreNewer):
        databases.check(databases.Databases(kind="sqlite", revision="2000"), settings_of(tmp_path))
