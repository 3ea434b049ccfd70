"""What `Store` promises on both databases: atomic units, order, merging, fencing, an end."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select, text

from bot.clock import SystemClock
from bot.store import Bulk, Fenced, Store, StoreBusy, StoreClosed, StoreUnavailable, accounts
from bot.store.tables import accounts as table
from tests.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from tests.simulators.postgres import PostgresServer

NOW: datetime = SystemClock().now()


def bind(name: str) -> Callable[[Connection], None]:
    return lambda tx: accounts.bind(tx, name, "telegram", name, NOW)


def names(tx: Connection) -> list[str]:
    return list(tx.scalars(select(table.c.name).order_by(table.c.name)))


def end_lease(tx: Connection) -> None:
    tx.execute(text("UPDATE instance SET lease_until = 0"))


class Gate:
    """A unit that holds the writing thread until it is opened, so that what comes meanwhile waits together."""

    def __init__(self, store: Store) -> None:
        self._entered = threading.Event()
        self._open = threading.Event()
        self._task = asyncio.create_task(store.write(self._hold))

    async def __aenter__(self) -> Gate:
        assert await asyncio.to_thread(self._entered.wait, 5)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._open.set()
        await self._task

    def _hold(self, _tx: Connection) -> None:
        self._entered.set()
        assert self._open.wait(5)


async def begin_all(*calls: Any) -> list[asyncio.Task[Any]]:
    """Start the calls in this order and let each reach the queue."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    await asyncio.sleep(0)
    return tasks


async def test_a_unit_is_committed_when_write_returns(store: Store) -> None:
    assert await store.write(lambda tx: tx.dialect.name) in ("sqlite", "postgresql")
    await store.write(bind("a"))
    assert await store.read(names) == ["a"]
    assert not store.busy


async def test_waiting_rows_of_one_kind_become_one_statement(store: Store) -> None:
    calls: list[list[int]] = []

    def run(_tx: Connection, rows: Sequence[int]) -> list[int]:
        calls.append(list(rows))
        return [row * 10 for row in rows]

    bulk = Bulk("probe", run)
    async with Gate(store):
        tasks = await begin_all(
            *(store.add(bulk, [n, n + 100]) for n in range(3)), store.write(bind("a")), store.add(bulk, [7])
        )
        assert store.busy
    assert await asyncio.gather(*tasks) == [[0, 1000], [10, 1010], [20, 1020], None, [70]]
    assert calls == [[0, 100, 1, 101, 2, 102], [7]]


async def test_only_the_culprit_fails(store: Store) -> None:
    def fail(tx: Connection) -> None:
        accounts.bind(tx, "half", "telegram", "half", NOW)
        raise ZeroDivisionError

    async with Gate(store):
        tasks = await begin_all(
            store.write(bind("a")), store.write(fail), store.write(lambda tx: tx.execute(text("nonsense"))),
            store.write(bind("b")),
        )  # fmt: skip
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert (answers[0], answers[3]) == (None, None)
    assert isinstance(answers[1], ZeroDivisionError)
    assert "nonsense" in str(answers[2])
    assert await store.read(names) == ["a", "b"]


async def test_a_cancelled_callers_unit_still_commits(store: Store) -> None:
    async with Gate(store):
        (cancelled, other) = await begin_all(store.write(bind("a")), store.write(bind("b")))
        cancelled.cancel()
    await other
    assert cancelled.cancelled()
    assert await store.read(names) == ["a", "b"]


async def test_many_tasks_read_and_write_without_locking_each_other_out(store: Store) -> None:
    def increase(tx: Connection) -> None:
        seen = tx.scalar(select(table.c.bot_id).where(table.c.name == "counter"))
        tx.execute(table.update().where(table.c.name == "counter").values(bot_id=str(int(seen or 0) + 1)))

    await store.write(lambda tx: accounts.bind(tx, "counter", "telegram", "0", NOW))
    async with asyncio.timeout(30):
        await asyncio.gather(*(call for _ in range(300) for call in (store.write(increase), store.read(names))))
    assert await store.read(lambda tx: tx.scalar(select(table.c.bot_id))) == "300"


async def test_a_reader_sees_one_moment_and_cannot_write(store: Store) -> None:
    loop = asyncio.get_running_loop()

    def twice(tx: Connection) -> tuple[list[str], list[str]]:
        before = names(tx)
        asyncio.run_coroutine_threadsafe(store.write(bind("a")), loop).result(5)
        return before, names(tx)

    assert await store.read(twice) == ([], [])
    assert await store.read(names) == ["a"]
    with pytest.raises(StoreUnavailable, match=r"read-only|readonly"):
        await store.read(bind("b"))
    await store.write(bind("b"))


async def test_a_process_that_was_replaced_writes_nothing(url: str) -> None:
    first = await Store.open(url, clock=SystemClock())
    assert first.lease_valid()
    await first.write(end_lease)
    second = await Store.open(url, clock=SystemClock())
    assert second.epoch == first.epoch + 1

    answers = await asyncio.gather(first.write(bind("a")), first.write(bind("b")), return_exceptions=True)
    assert [type(answer) for answer in answers] == [Fenced, Fenced]
    assert not first.lease_valid()
    await second.write(bind("c"))
    await first.close()
    assert await second.read(names) == ["c"]
    await second.close()


async def test_an_epoch_is_never_used_twice(url: str) -> None:
    epochs = []
    for _ in range(3):
        store = await Store.open(url, clock=SystemClock())
        epochs.append(store.epoch)
        await store.close()
    assert epochs == [1, 2, 3]


async def test_close_writes_what_waits_and_takes_nothing_more(url: str) -> None:
    store = await Store.open(url, clock=SystemClock())
    async with Gate(store):
        (waiting, closing) = await begin_all(store.write(bind("a")), store.close())
    await asyncio.gather(waiting, closing)
    await store.close()

    with pytest.raises(StoreClosed):
        await store.write(bind("b"))
    with pytest.raises(StoreClosed):
        await store.read(names)
    again = await Store.open(url, clock=SystemClock())
    assert await again.read(names) == ["a"]
    await again.close()


@pytest.mark.postgres
async def test_a_leased_database_names_its_owner(postgres: PostgresServer) -> None:
    url = postgres.database()
    first = await Store.open(url, clock=SystemClock())
    with pytest.raises(StoreBusy, match=r"in use by \S+:\d+"):
        await Store.open(url, clock=SystemClock())
    await first.write(bind("a"))
    await first.close()
    second = await Store.open(url, clock=SystemClock())
    await second.close()


@pytest.mark.postgres
async def test_a_database_whose_holder_froze_in_mid_write_is_busy_and_not_broken(postgres: PostgresServer) -> None:
    url = postgres.database()
    first = await Store.open(url, clock=SystemClock())
    await first.write(end_lease)
    async with Gate(first):  # its batch has the instance's row, as a stopped process would for a while
        with pytest.raises(StoreBusy, match=r"in use by \S+:\d+"):
            await Store.open(url, clock=SystemClock())
    second = await Store.open(url, clock=SystemClock())
    await second.close()
    await first.close()


@pytest.mark.postgres
async def test_the_lease_is_renewed_while_the_process_lives(postgres: PostgresServer) -> None:
    clock = VirtualClock()
    store = await Store.open(postgres.database(), clock=clock)
    clock.busy = lambda: store.busy
    before = await store.read(lambda tx: tx.scalar(text("SELECT lease_until FROM instance")))

    await clock.advance(45)
    assert store.lease_valid()
    assert await store.read(lambda tx: tx.scalar(text("SELECT lease_until FROM instance"))) > before
    async with Gate(store):  # the database does not answer: whoever asks learns it when the lease has run out
        clock.busy = lambda: False
        await clock.advance(20)
        assert store.lease_valid()
        await clock.advance(15)
        assert not store.lease_valid()
    await store.close()
