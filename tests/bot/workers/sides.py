"""Both sides of the work on runs, a gateway's and a worker's, in one process and on one database."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from bot.clock import SystemClock
from bot.files.sandboxes import ThreadOwners
from bot.store import Store, runs, worker_runs
from bot.store.retrying import RetryingStore
from bot.store.rows import RunState
from bot.store.run_events import StoreRunLedger
from bot.store.schema import STEPS
from bot.store.sql import libpq_url
from bot.usage.meter import Meter
from bot.workers import queue
from bot.workers.dispatch import Dispatch
from bot.workers.jobs import Jobs, StoreSteering
from bot.workers.listening import Listener
from tests.bot.scripted_harness import ScriptedHarness
from tests.bot.store.samples import run_row

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from bot.store.rows import RunRow
    from bot.store.worker_runs import OrderState
    from bot.tasks import Tasks
    from channels.base import Clock
    from harness.context import RunContext, RunInput
    from harness.events import AnyRunEvent
    from harness.ports import Harness

SAID = "hello"
CLOCK = SystemClock()


async def until(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait for what another connection brings about."""
    async with asyncio.timeout(20):
        while True:
            held = holds()
            if held is True or (held is not False and await held):
                return
            await asyncio.sleep(0.02)


@dataclass
class TakenIn:
    """Steering of a gateway: what is said is made a part of the row when it is asked for."""

    store: RetryingStore
    waiting: list[RunInput] = field(default_factory=list)
    asked: int = 0

    async def said(self, ctx: RunContext, *, more: bool = True) -> tuple[RunInput, ...]:
        self.asked += 1
        row = await self.store.read(partial(runs.load, run_id=ctx.run_id))
        assert row is not None
        steered = (*row.input.steered, *self.waiting)
        self.waiting.clear()
        heard = replace(row.input, steered=steered)
        await self.store.write(partial(runs.set_input, run_id=ctx.run_id, run_input=heard))
        return steered


@dataclass
class Gateway:
    """The gateway's side, on one database. local: the harness of its own process."""

    url: str
    store: RetryingStore
    tasks: Tasks
    local: ScriptedHarness = field(default_factory=ScriptedHarness)
    leaves: bool = False

    def __post_init__(self) -> None:
        self.steering = TakenIn(self.store)
        self.listener = Listener(libpq_url(self.url), CLOCK, lambda: None)
        self.dispatch = self.another()

    def another(self) -> Dispatch:
        """As the next process of the gateway has it."""
        return Dispatch(self.store, self.listener, lambda: self.steering, lambda: self.leaves)

    async def opened(self, chat: str = "telegram:7", calls: int = 0) -> RunRow:
        """A run that was started. calls: that were counted with its start."""
        row = run_row(conversation=chat)
        context = replace(row.context, thread_id=f"thread of {chat}")
        row = replace(row, thread_id=context.thread_id, context=context)
        await self.store.write(partial(runs.open, row=row))
        return await self.store.write(
            partial(runs.start, run_id=row.run_id, head=None, now=CLOCK.now(), epoch=self.store.epoch, calls=calls)
        )

    async def end(self, row: RunRow) -> None:
        await self.store.write(partial(runs.end, run_id=row.run_id, state=RunState.SUCCESS, now=CLOCK.now()))

    async def order(self, row: RunRow) -> worker_runs.Order:
        order = await self.store.read(partial(worker_runs.load, run_id=row.run_id))
        assert order is not None
        return order

    async def until(self, row: RunRow, state: OrderState) -> None:
        async def reached() -> bool:
            return (await self.order(row)).state is state

        await until(reached)

    async def has_order(self, row: RunRow, *, wanted: bool = True) -> bool:
        return (await self.store.read(partial(worker_runs.load, run_id=row.run_id)) is not None) is wanted


@dataclass
class Life:
    """What a worker was told."""

    asked: int = 0

    def sign(self) -> dict[str, str]:
        return {"name": "w", "process": "h:1", "version": "1", "facts": "{}"}

    def heard(self, asked: int, revision: str) -> None:
        assert revision == STEPS.revisions[-1]
        self.asked = asked


@dataclass
class WorkerSide:
    """One worker in this process."""

    queue: queue.Queue
    store: RetryingStore
    agent: ScriptedHarness
    ledger: StoreRunLedger
    jobs: Jobs
    life: Life
    working: asyncio.Task[None]
    fenced: asyncio.Event

    async def stop(self) -> None:
        self.queue.stop()
        self.jobs.leave()
        await self.working


@asynccontextmanager
async def working(url: str, clock: Clock = CLOCK, agent: ScriptedHarness | None = None) -> AsyncIterator[WorkerSide]:
    """A worker that takes jobs. clock: by which it knows how old its signs of life are. agent: for what it takes before
    the block begins."""
    async with AsyncExitStack() as stack:
        jobs_queue = queue.Queue(libpq_url(url), 4, clock)
        check = partial(checked, jobs_queue)
        opened = await Store.join(
            url, clock=CLOCK, check=check, stands=jobs_queue.stands, check_run=jobs_queue.check_run
        )
        stack.push_async_callback(opened.close)
        store, agent, fenced = RetryingStore(opened, CLOCK), agent or ScriptedHarness(), asyncio.Event()
        agent.steering = StoreSteering(store)
        meter = Meter(store, CLOCK, {})
        ledger = StoreRunLedger(store, meter)

        async def harness() -> Harness:
            return agent

        registration, draft = jobs_queue.registration, jobs_queue.draft
        jobs = Jobs(store, harness, meter, ThreadOwners(), registration, draft, fenced.set)
        life = Life()
        serving = asyncio.create_task(jobs_queue.work(jobs.work, life))
        side = WorkerSide(jobs_queue, store, agent, ledger, jobs, life, serving, fenced)
        await until(lambda: jobs_queue.registration() is not None)
        try:
            yield side
        finally:
            if not side.working.done():
                await side.stop()


def checked(jobs: queue.Queue, tx: Any) -> None:
    worker_runs.check_worker(tx, jobs.registration())


async def all_of(harness: Harness, row: RunRow, next_seq: int = 1) -> list[AnyRunEvent]:
    async with asyncio.timeout(30), aclosing(harness.run(row.context, row.input, next_seq=next_seq)) as events:
        return [event async for event in events]
