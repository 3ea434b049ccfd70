"""A database that is full, locked, gone or not one: a clear error, and work again as soon as it is back."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select

from bot.clock import SystemClock
from bot.store import Store, StoreUnavailable, accounts, inbox
from bot.store.inbox import ADD_EVENTS
from bot.store.sql import libpq_url
from bot.store.tables import accounts as table
from tests.bot.store.samples import NOW, message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Connection

    from tests.simulators.postgres import PostgresServer


@contextmanager
def no_file_grows_beyond(size: int) -> Iterator[None]:
    """As on a full disk; Python ignores the signal, so that the write fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def bind(tx: Connection) -> None:
    accounts.bind(tx, "a", "telegram", "1", NOW)


async def test_a_full_disk_loses_nothing_that_was_confirmed(tmp_path: Path) -> None:
    store = await Store.open(f"sqlite:///{tmp_path}/antler.db", clock=SystemClock())
    confirmed = await store.add(ADD_EVENTS, [message("u:1")])
    with no_file_grows_beyond(400_000):
        large = [store.add(ADD_EVENTS, [message(f"u:{n}", text="x" * 50_000)]) for n in range(2, 30)]
        answers = await asyncio.gather(*large, return_exceptions=True)
        assert {type(answer) for answer in answers} == {StoreUnavailable}
        assert "disk" in str(answers[0])
        with pytest.raises(StoreUnavailable):
            await store.add(ADD_EVENTS, [message("u:99", text="x" * 500_000)])
        assert await store.read(inbox.unsettled) == confirmed

    more = await store.add(ADD_EVENTS, [message("u:2"), message("u:1")])
    assert more[0] is not None
    assert more[1] is None
    await store.close()
    file = sqlite3.connect(tmp_path / "antler.db")
    assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    file.close()


async def test_a_lock_of_another_program_is_named_and_survived(tmp_path: Path) -> None:
    store = await Store.open(f"sqlite:///{tmp_path}/antler.db?timeout=0.1", clock=SystemClock())
    other = sqlite3.connect(tmp_path / "antler.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked by another program"):
        await store.write(bind)
    other.execute("ROLLBACK")
    other.close()
    await store.write(bind)
    await store.close()


async def test_a_connection_that_became_read_only_is_replaced(tmp_path: Path) -> None:
    store = await Store.open(f"sqlite:///{tmp_path}/antler.db", clock=SystemClock())

    def spoil(tx: Connection) -> None:
        tx.exec_driver_sql("PRAGMA query_only=ON")
        bind(tx)

    with pytest.raises(StoreUnavailable, match="read-only"):
        await store.write(spoil)
    await store.write(bind)
    await store.close()


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("sqlite:///{folder}/missing/antler.db", "No such file or directory"),
        ("sqlite:///{folder}", "Is a directory"),
        ("sqlite:///{folder}/noise.db", "not a database"),
        ("sqlite://", "names no file"),
        ("mysql://root:hunter2@localhost/x", "must start with sqlite: or postgresql:"),
        ("no url", "cannot be read"),
        ("postgresql://antler:hunter2@/antler?host={folder}", "No such file or directory"),
    ],
)
async def test_a_wrong_url_says_what_is_wrong_and_no_password(tmp_path: Path, url: str, complaint: str) -> None:
    (tmp_path / "noise.db").write_bytes(b"noise" * 1000)
    with pytest.raises(StoreUnavailable, match=complaint) as refused:
        await Store.open(url.format(folder=tmp_path), clock=SystemClock())
    assert "hunter2" not in str(refused.value)


@pytest.mark.postgres
async def test_a_lost_connection_is_replaced_unnoticed(postgres: PostgresServer) -> None:
    url = postgres.database()
    store = await Store.open(url, clock=SystemClock())
    await store.write(bind)
    assert await store.read(lambda tx: tx.scalar(select(table.c.name))) == "a"
    with postgres.connect("postgres") as operator:
        operator.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'antler'")

    await store.write(bind)
    assert await store.read(lambda tx: tx.scalar(select(table.c.name))) == "a"
    await store.close()


@pytest.mark.postgres
async def test_what_people_write_is_kept_whatever_encoding_clients_are_told_to_use(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "GBK")
    url = postgres.database()
    store = await Store.open(url, clock=SystemClock())
    (row,) = await store.add(ADD_EVENTS, [message("one", text="你好 😀")])
    assert row is not None
    (kept,) = await store.read(lambda tx: inbox.load(tx, [row.id]))
    assert "你好 😀" in kept.event
    await store.close()
    assert "client_encoding=UTF8" in libpq_url(url)


@pytest.mark.postgres
async def test_a_server_that_restarts_is_waited_out(postgres: PostgresServer) -> None:
    store = await Store.open(postgres.database(), clock=SystemClock())
    postgres.stop()
    try:
        with pytest.raises(StoreUnavailable):
            await store.write(bind)
        with pytest.raises(StoreUnavailable):
            await store.read(lambda tx: tx.scalar(select(table.c.name)))
    finally:
        postgres.start()
    await store.write(bind)
    assert await store.read(lambda tx: tx.scalar(select(table.c.name))) == "a"
    await store.close()


@pytest.mark.postgres
async def test_a_frozen_process_does_not_hold_the_database_for_ever(postgres: PostgresServer) -> None:
    quick = "&options=-c%20idle_in_transaction_session_timeout%3D200ms"
    store = await Store.open(postgres.database() + quick, clock=SystemClock())

    def freeze(tx: Connection) -> None:
        session = tx.exec_driver_sql("SELECT pg_backend_pid()").scalar()
        with postgres.connect("postgres") as operator:
            alive = "SELECT FROM pg_stat_activity WHERE pid = %s"
            deadline = time.monotonic() + 10
            while operator.execute(alive, (session,)).fetchone() is not None:
                assert time.monotonic() < deadline
        bind(tx)

    with pytest.raises(StoreUnavailable, match="connection broke"):
        await store.write(freeze)
    await store.write(bind)
    await store.close()
