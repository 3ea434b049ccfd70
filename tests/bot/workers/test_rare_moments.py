"""What workers meet with rarely: commits whose word is lost, broken characters, words that come between two looks,
processes that froze themselves, workers that nobody told of a change."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from bot.store import Fenced, worker_runs
from bot.store.retrying import RetryingStore
from bot.store.sql import END_FROZEN, libpq_url
from bot.store.worker_runs import OrderState
from bot.workers import queue
from bot.workers.dispatch import TIDY_SECONDS, DeadWorkers, Staff
from bot.workers.harness import WorkersHarness
from harness.context import Titled
from harness.events import Finished, TextDelta
from harness.threads.checkpoints import open_checkpoints
from tests.bot.workers.sides import SAID, Gateway, all_of, until, working
from tests.clock import VirtualClock
from tests.simulators.postgres import frozen_in_a_pipeline

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from procrastinate.jobs import Job
    from sqlalchemy import Connection

    from harness.events import AnyRunEvent
    from tests.bot.scripted_harness import Teller

pytestmark = pytest.mark.postgres

REGISTER = text("SELECT * FROM procrastinate_register_worker_v1()")
SILENT = text("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '40 s'")
WORKERS = text("SELECT count(*) FROM procrastinate_workers")
FETCH = text("SELECT procrastinate_fetch_job_v2(ARRAY['antler'], :worker)")


class Held(RetryingStore):
    """A store of a server that lets who tries it wait. takes: so many seconds. tries: how often it was tried."""

    takes, tries = 0.0, 0

    def __init__(self, store: RetryingStore, clock: VirtualClock) -> None:
        super().__init__(store._store, clock)
        self._virtual = clock

    async def tried(self, unit: Callable[[Connection], object]) -> bool:
        self.tries += 1
        await self._virtual.advance(self.takes)
        return await super().tried(unit)


async def test_a_run_is_put_back_once_however_often_that_is_written(gateway: Gateway) -> None:
    row = await gateway.opened()
    await gateway.store.write(lambda tx: Staff.order(tx, row, 1))
    first, second = [await gateway.store.write(lambda tx: tx.scalar(REGISTER)) for _ in range(2)]
    job = (await gateway.order(row)).job
    put_back = partial(worker_runs.put_back, run_id=row.run_id, job=job, worker=first)
    status = text("SELECT status FROM procrastinate_jobs")

    async def taken_by(worker: int | None) -> None:
        await gateway.store.write(lambda tx: tx.execute(FETCH, {"worker": worker}))
        await gateway.store.write(partial(worker_runs.take, run_id=row.run_id, job=job, worker=worker or 0))

    await taken_by(first)
    for _ in range(2):  # once more, where the connection broke before the word of the commit came
        await gateway.store.write(put_back)
        assert await gateway.store.read(lambda tx: tx.scalar(status)) == "todo"
    await taken_by(second)
    await gateway.store.write(put_back)
    assert await gateway.store.read(lambda tx: tx.scalar(status)) == "doing"
    order = await gateway.order(row)
    assert (order.state, order.worker, order.deaths) == (OrderState.OPEN, second, 0)


async def test_half_a_character_of_a_model_ends_no_run(gateway: Gateway) -> None:
    async with working(gateway.url) as worker:

        async def says(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
            yield tell(TextDelta, message_id="a", text="half \ud83d")
            await asyncio.sleep(0.5)
            yield tell.answer("half \ud83d")

        worker.agent.scripts[SAID] = says
        row = await gateway.opened()
        last = (await all_of(WorkersHarness(gateway.local, gateway.dispatch), row))[-1]
    assert isinstance(last, Finished)
    assert last.text == "half \ufffd"


async def test_half_a_character_ends_no_call(gateway: Gateway) -> None:
    async with working(gateway.url) as worker:
        worker.agent.titles.append(Titled(text="half \ud83d", input_tokens=3, output_tokens=1))
        port = WorkersHarness(gateway.local, gateway.dispatch)
        assert await port.title("sim", "half \ud83d", "so far") == Titled(
            text="half \ufffd", input_tokens=3, output_tokens=1
        )
        assert worker.agent.titled == [("sim", "half \ufffd", "so far")]


async def test_a_job_that_comes_while_a_worker_looks_is_taken_at_once(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after the pause between two looks: the word of it comes behind what the look has seen."""
    monkeypatch.setattr(queue, "LOOK_SECONDS", 3600.0)
    look, seen, ordered = queue.OutlivingJobs.fetch_job, asyncio.Event(), asyncio.Event()

    async def slowly(jobs: queue.OutlivingJobs, *args: Any, **named: Any) -> Job | None:
        found = await look(jobs, *args, **named)
        if found is None and not seen.is_set():
            seen.set()
            await ordered.wait()
            await asyncio.sleep(0.5)  # until its word has come
        return found

    monkeypatch.setattr(queue.OutlivingJobs, "fetch_job", slowly)
    async with working(gateway.url):
        await seen.wait()
        await asyncio.sleep(0.5)  # until it listens
        row = await gateway.opened()
        told = asyncio.create_task(all_of(WorkersHarness(gateway.local, gateway.dispatch), row))
        await until(partial(gateway.has_order, row))
        ordered.set()
        async with asyncio.timeout(10):
            assert isinstance((await told)[-1], Finished)


async def test_a_frozen_gateway_holds_no_lock_of_a_history(gateway: Gateway) -> None:
    """Its successor goes on with the same step, whose rows have the same keys."""
    checkpoints = await open_checkpoints(libpq_url(gateway.url))
    try:
        ((limit,),) = await checkpoints.run("SHOW idle_in_transaction_session_timeout", ())
        assert limit == "20s"
    finally:
        await checkpoints.close()


async def test_a_worker_that_froze_in_the_middle_of_a_pipeline_is_taken_for_dead(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock on its own registration is not in the way."""
    monkeypatch.setattr(worker_runs, "END_FROZEN", END_FROZEN.replace("20 s", "0 s"))
    worker = await gateway.store.write(lambda tx: tx.scalar(REGISTER))
    await gateway.store.write(lambda tx: tx.execute(SILENT))
    async with frozen_in_a_pipeline(libpq_url(gateway.url), worker_runs.CHECK_WORKER, worker):
        await gateway.store.write(worker_runs.recover)
        assert await gateway.store.read(lambda tx: tx.scalar(WORKERS)) == 0


async def test_who_was_frozen_takes_nobody_for_dead_before_the_others_could_tell(gateway: Gateway) -> None:
    """The server's silence, or the sleep of a whole machine, has kept the others from it as well."""
    clock = VirtualClock()
    store = Held(gateway.store, clock)
    dead = DeadWorkers(store)
    await gateway.store.write(lambda tx: tx.scalar(REGISTER))

    async def looks(times: int) -> int:
        for _ in range(times):
            await clock.advance(TIDY_SECONDS)
            await dead.look()
        return int(await gateway.store.read(lambda tx: tx.scalar(WORKERS)) or 0)

    assert await looks(4) == 1
    await gateway.store.write(lambda tx: tx.execute(SILENT))
    await clock.advance(40)
    assert await looks(1) == 1, "it did not look itself"
    assert await looks(3) == 1
    store.takes = 40.0
    assert await looks(1) == 1, "the server let it wait"
    store.takes = 0.0
    assert await looks(3) == 1
    assert await looks(1) == 0


async def test_a_worker_looks_for_dead_ones_once_it_had_time_to_be_registered(gateway: Gateway) -> None:
    """Before that it may not write, and would report that the database does not work."""
    clock = VirtualClock()
    store = Held(gateway.store, clock)
    looking = asyncio.create_task(DeadWorkers(store).serve())
    await clock.advance(TIDY_SECONDS - 1)
    assert store.tries == 0
    await clock.advance(1)
    assert store.tries == 1
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)


async def test_a_gateway_without_workers_ends_those_that_still_run(gateway: Gateway) -> None:
    """It goes on with what they are at."""
    async with working(gateway.url) as worker:
        worker.agent.hold(SAID)
        row = await gateway.opened()
        told = asyncio.create_task(all_of(WorkersHarness(gateway.local, gateway.dispatch), row))
        await until(lambda: worker.agent.working == 1)
        await gateway.store.write(worker_runs.discard_all)
        with pytest.raises(Fenced):
            await worker.store.write(lambda tx: None)
        told.cancel()
        await asyncio.wait({told})
    jobs = text("SELECT count(*) FROM procrastinate_jobs")
    assert await gateway.store.read(lambda tx: tx.scalar(jobs)) == 0


async def test_a_job_that_begins_while_another_thread_asks_who_may_write_disturbs_nobody(gateway: Gateway) -> None:
    jobs = queue.Queue(libpq_url(gateway.url), 2, VirtualClock())
    running: dict[object, Any] = jobs._worker._running_jobs

    class Begins:
        """What runs; the next one begins as soon as somebody looks at it."""

        @property
        def job(self) -> Any:
            running[object()] = self
            return SimpleNamespace(id=len(running), lock="t", task_kwargs={"run_id": "r"})

    running[object()] = Begins()
    statement, (_, job) = jobs.fence("t")
    assert (statement, job) == (worker_runs.CHECK_JOB, 2)
