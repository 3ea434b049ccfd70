"""Who leads on PostgreSQL, and what becomes of one that loses the lead. Between processes: tests/flow."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from bot.clock import SystemClock
from bot.store import Store, leadership, sql, writer
from bot.store.errors import Fenced, SessionsNotKept, StoreBusy
from bot.store.leadership import Lead
from bot.store.store import UNDO_SECONDS
from tests.simulators.pgbouncer import pgbouncer, set_pool_mode
from tests.simulators.postgres import frozen_in_a_pipeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from tests.simulators.postgres import PostgresServer

pytestmark = pytest.mark.postgres
ELSEWHERE = "elsewhere:4711 another-boot/1"
"""A process of which nothing can be known here but what the database says."""


def leased_by(owner: str) -> object:
    def unit(tx: Connection) -> None:
        tx.execute(text("UPDATE instance SET owner = :owner"), {"owner": owner})

    return unit


def backends(postgres: PostgresServer, url: str, name: str) -> list[object]:
    """Sessions of that database whose name begins so."""
    with postgres.connect(make_url(url).database or "") as operator:
        found = operator.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE %s",
            (f"{name}%",),
        )
        return [row[0] for row in found]


def end(postgres: PostgresServer, pids: list[object]) -> None:
    with postgres.connect("postgres") as operator:
        for pid in pids:
            operator.execute("SELECT pg_terminate_backend(%s)", (pid,))


def hold_up_until(condition: Callable[[], bool]) -> None:
    """Without an await: no task of the loop has a turn meanwhile."""
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def hold_up_for(seconds: float) -> None:
    """As a machine does that is paused."""
    deadline = time.monotonic() + seconds
    hold_up_until(lambda: time.monotonic() > deadline)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(400):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("not within 20 s")


async def until_it_leads(lead: Lead) -> float:
    """How long that took."""
    began = time.monotonic()
    async with asyncio.timeout(20):
        while not await lead.attempt():
            await lead.pause()
    return time.monotonic() - began


async def test_a_standby_is_woken_by_the_end_of_the_leader(postgres: PostgresServer) -> None:
    url = postgres.database()
    first = await Store.open(url, clock=SystemClock())
    standby = await Lead.connect(sql.parse(url))
    assert not await standby.attempt()
    assert standby.leader == writer.short_name(writer.process_name())
    held = [standby.held]
    assert await first.processes() == (standby.leader, [standby.leader])

    waiting = asyncio.create_task(until_it_leads(standby))
    await asyncio.sleep(0)
    began = time.monotonic()
    await first.close()
    await waiting
    assert time.monotonic() - began < leadership.LOOK_SECONDS, "it was told, and did not look by chance"
    assert [*held, standby.held] == [False, True]
    second = await Store.open(url, clock=SystemClock(), lead=standby)
    assert (second.epoch, second.lease_valid()) == (first.epoch + 1, True)
    assert await second.processes() == (standby.leader, [])
    await second.close()
    await until(lambda: not backends(postgres, url, "antler"))


async def test_only_one_of_many_gets_the_lead(postgres: PostgresServer) -> None:
    url = postgres.database()
    asking = [await Lead.connect(sql.parse(url)) for _ in range(6)]
    got = await asyncio.gather(*(each.attempt() for each in asking))
    assert got.count(True) == 1
    assert [each.held for each in asking] == got
    await asyncio.gather(*(each.close() for each in asking))


async def test_the_leads_socket_has_one_reader_at_a_time(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, reading, twice = asyncio.get_running_loop(), set[int](), list[int]()
    add, remove = loop.add_reader, loop.remove_reader

    def adds(socket: int, *call: Any) -> None:
        if socket in reading:
            twice.append(socket)
        reading.add(socket)
        add(socket, *call)

    def removes(socket: int) -> bool:
        reading.discard(socket)
        return remove(socket)

    monkeypatch.setattr(loop, "add_reader", adds)
    monkeypatch.setattr(loop, "remove_reader", removes)
    url = postgres.database()
    store = await Store.open(url, clock=SystemClock())
    end(postgres, backends(postgres, url, leadership.LEADER))
    await store.lease_lost()
    await until(store.lease_valid)
    await store.close()
    assert twice == []


async def test_the_socket_tells_the_end_of_the_lead_before_any_task_does(postgres: PostgresServer) -> None:
    url = postgres.database()
    store = await Store.open(url, clock=SystemClock())
    end(postgres, backends(postgres, url, leadership.LEADER))
    hold_up_until(lambda: not store.lease_valid())
    async with asyncio.timeout(0.5):
        await store.lease_lost()
    await store.close()


async def test_what_was_done_outside_may_be_undone_only_as_long_as_nobody_else_acts(postgres: PostgresServer) -> None:
    url = postgres.database()
    store = await Store.open(url, clock=SystemClock())
    assert await store.recorded(asyncio.sleep(0)), "it leads and has written it down"
    end(postgres, backends(postgres, url, leadership.LEADER))
    async with asyncio.timeout(UNDO_SECONDS):
        assert not await store.recorded(asyncio.sleep(30))
    hold_up_for(UNDO_SECONDS)
    assert await store.recorded(asyncio.sleep(0.1)), "the next one may have begun: it is written down, or never"
    await store.close()


async def test_who_is_fenced_undoes_nothing(postgres: PostgresServer) -> None:
    url = postgres.database()
    first = await Store.open(url, clock=SystemClock())
    await first.write(lambda tx: tx.execute(text("UPDATE instance SET epoch = epoch + 1")))
    assert first.lease_valid()
    with pytest.raises(Fenced):
        await first.recorded(first.write(lambda tx: None))
    with pytest.raises(Fenced):
        await first.recorded(first.write(lambda tx: None))
    await first.close()


async def test_a_lead_that_nobody_else_wanted_is_had_again(postgres: PostgresServer) -> None:
    url = postgres.database()
    store = await Store.open(url, clock=SystemClock())
    end(postgres, backends(postgres, url, leadership.LEADER))
    await store.lease_lost()
    await store.may_act()
    assert store.lease_valid()
    await store.write(lambda tx: tx.execute(text("SELECT 1")))
    assert len(backends(postgres, url, leadership.LEADER)) == 1
    with pytest.raises(StoreBusy):
        await Store.open(url, clock=SystemClock())
    await store.close()


async def test_who_lost_the_lead_to_a_standby_is_fenced(postgres: PostgresServer) -> None:
    url = postgres.database()
    first = await Store.open(url, clock=SystemClock())
    standby = await Lead.connect(sql.parse(url))
    waiting = asyncio.create_task(until_it_leads(standby))
    end(postgres, backends(postgres, url, leadership.LEADER))
    assert await waiting >= leadership.REACTION_SECONDS, "the former leader, alive for all that is known, has its time"
    assert not first.lease_valid()
    acting = asyncio.create_task(first.may_act())
    second = await Store.open(url, clock=SystemClock(), lead=standby)
    await second.may_act()
    with pytest.raises(Fenced):
        await first.write(lambda tx: tx.execute(text("SELECT 1")))
    with pytest.raises(Fenced):
        await acting
    await until(lambda: first.fenced)
    assert second.lease_valid()
    await first.close()
    assert second.lease_valid(), "the end of a fenced process takes nothing from its successor"
    assert await second.processes() == (writer.short_name(writer.process_name()), [])
    await second.close()


async def test_the_lock_of_a_silent_leader_is_ended_when_its_lease_has_run_out_and_not_before(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    first = await Store.open(url, clock=SystemClock())
    standby = await Lead.connect(sql.parse(url))
    margin = round(leadership.REACTION_SECONDS * 1_000_000)
    soon = f"UPDATE instance SET lease_until = {writer.SERVER_NOW} - {margin} + 1500000"
    await first.write(lambda tx: tx.execute(text(soon)))
    assert not await standby.attempt()
    assert first.lease_valid()
    assert await until_it_leads(standby) >= 0.5
    async with asyncio.timeout(leadership.REACTION_SECONDS / 2):
        await first.lease_lost()
    await standby.close()
    await first.close()


async def test_the_former_leader_has_its_time_also_where_the_next_one_ended_at_once(postgres: PostgresServer) -> None:
    url = postgres.database()
    first = await Store.open(url, clock=SystemClock())
    standby = await Lead.connect(sql.parse(url))
    waiting = asyncio.create_task(until_it_leads(standby))
    end(postgres, backends(postgres, url, leadership.LEADER))
    async with asyncio.timeout(10):
        await first.lease_lost()
    await asyncio.sleep(leadership.LOOK_SECONDS + 0.3)  # the standby has the lock and lets the former leader end
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await standby.close()
    third = await Lead.connect(sql.parse(url))
    began = time.monotonic()
    assert await third.attempt()
    assert time.monotonic() - began >= leadership.REACTION_SECONDS
    await third.close()
    await first.close()


async def test_a_process_of_an_older_version_has_a_lease_and_no_lock(postgres: PostgresServer) -> None:
    url = postgres.database()
    former = await Store.open(url, clock=SystemClock())
    await former.write(leased_by(ELSEWHERE))  # type: ignore[arg-type]
    end(postgres, backends(postgres, url, leadership.LEADER))
    standby = await Lead.connect(sql.parse(url))
    with pytest.raises(StoreBusy, match="elsewhere:4711"):
        await until_it_leads(standby)
    assert not standby.held
    await former.write(lambda tx: tx.execute(text("UPDATE instance SET lease_until = 0")))
    assert await until_it_leads(standby) < leadership.REACTION_SECONDS
    await standby.close()
    await former.close()


async def test_a_server_that_restarts_is_no_end_of_the_lead(postgres: PostgresServer) -> None:
    store = await Store.open(postgres.database(), clock=SystemClock())
    postgres.stop()
    try:
        assert not store.lease_valid()
    finally:
        postgres.start()
    await until(store.lease_valid)
    assert not store.fenced
    await store.close()


async def test_who_froze_in_the_middle_of_a_pipeline_does_not_hold_the_lead(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "END_FROZEN", sql.END_FROZEN.replace("20 s", "200 ms"))
    url = postgres.database()
    store = await Store.open(url, clock=SystemClock())
    await store.close()
    async with frozen_in_a_pipeline(sql.libpq_url(url), writer.CHECK_POSTGRES):
        with pytest.raises(StoreBusy):
            await Lead.take(sql.parse(url))
        lead = await Lead.take(sql.parse(url))
        await lead.close()


async def test_pgbouncer_in_session_mode_keeps_the_lead(postgres: PostgresServer) -> None:
    url = postgres.database()
    with pgbouncer(url, "session") as pooled:
        store = await Store.open(pooled, clock=SystemClock())
        with pytest.raises(StoreBusy):
            await Store.open(pooled, clock=SystemClock())
        with pytest.raises(StoreBusy):
            await Store.open(url, clock=SystemClock())
        limit = "SELECT current_setting('idle_in_transaction_session_timeout')"
        assert await store.write(lambda tx: tx.scalar(text(limit))) == "20s"
        await store.close()
        again = await Store.open(url, clock=SystemClock())
        await again.close()


async def test_pgbouncer_in_transaction_mode_is_refused(postgres: PostgresServer) -> None:
    url = postgres.database()
    with pgbouncer(url, "transaction") as pooled:
        with pytest.raises(SessionsNotKept, match="pool_mode = session"):
            await Store.open(pooled, clock=SystemClock())
        store = await Store.open(url, clock=SystemClock())
        with pytest.raises(SessionsNotKept):
            await Lead.connect(sql.parse(pooled))
        await store.close()


async def test_a_pooler_that_stops_keeping_sessions_is_told_once(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership, "REGAIN_SECONDS", 0.05)
    url = postgres.database()
    with pgbouncer(url, "session") as pooled:
        store = await Store.open(pooled, clock=SystemClock())
        set_pool_mode(pooled, "transaction")
        end(postgres, backends(postgres, url, leadership.LEADER))
        await until(lambda: "the lead cannot be regained" in caplog.text)
        set_pool_mode(pooled, "session")
        await until(store.lease_valid)
        await store.close()
    (told,) = [record for record in caplog.records if "cannot be regained" in record.message]
    assert (told.levelno, "pool_mode = session" in told.message) == (logging.ERROR, True)
