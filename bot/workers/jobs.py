"""Jobs: executes the runs and calls that gateways ordered, with the harness of this process, and reports their
events."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from bot.store import runs, usage, worker_runs
from bot.store.errors import Fenced, TakenAway
from bot.store.sql import to_json
from bot.store.worker_runs import OrderState
from bot.workers.calls import answered
from bot.workers.dispatch import EVENTS
from channels.supervision import within
from harness.events import (
    Failed,
    FailureKind,
    ReasoningDelta,
    StepsEnded,
    SubagentProgress,
    TextDelta,
    TextReset,
    ToolProgress,
    Usage,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from sqlalchemy import Connection

    from bot.files.sandboxes import ThreadOwners
    from bot.store.retrying import RetryingStore
    from bot.store.rows import RunRow
    from bot.store.worker_runs import Order
    from bot.usage.meter import EventRecord, Meter
    from harness.context import RunContext, RunInput
    from harness.events import AnyRunEvent
    from harness.ports import Harness

    Draft = Callable[[str, int, str], Awaitable[None]]

log = logging.getLogger(__name__)
T = TypeVar("T")

MOST_DEATHS = 3
"""Deaths of workers at one run without progress in between, after which it is not tried again."""
TOLD_FIRST, TOLD_MOST, TOLD_GROWS = 0.15, 0.5, 0.05
"""Seconds for which a run's events are collected before they are written together: initially, at most, and the increase
per write. Chats update a long text once a second."""
TRANSIENT = (TextDelta, ReasoningDelta, ToolProgress, SubagentProgress)
"""Events that may be lost: they are reported again from the start, or need not be."""
LONGEST_DRAFT = 8_000
"""Maximum bytes of a draft, which is rewritten as a whole each time; a longer one becomes a row."""
ANSWER_SECONDS, LOOK_EVERY = 5.0, 0.05
"""How long a run waits for a gateway to deliver messages sent during it, and the seconds between checks."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A run as this worker found it. told: how many parts were reported before. unfinished: the last message that was
    reported, or ""."""

    order: Order
    row: RunRow
    told: int
    unfinished: str

    def is_of(self, job: int, worker: int) -> bool:
        """Whether the worker has taken the run for that job."""
        return (self.order.job, self.order.worker, self.order.state) == (job, worker, OrderState.OPEN)


class Jobs:
    """The execution of jobs. harness: returns the current one. worker: returns this worker's current registration.
    draft: see Queue.draft. fenced: called when other workers have taken over."""

    def __init__(
        self,
        store: RetryingStore,
        harness: Callable[[], Awaitable[Harness]],
        meter: Meter,
        owners: ThreadOwners,
        worker: Callable[[], int | None],
        draft: Draft,
        fenced: Callable[[], None],
    ) -> None:
        self._store = store
        self._harness = harness
        self._meter = meter
        self._owners = owners
        self._worker = worker
        self._draft = draft
        self._fenced = fenced
        self._leaving = False
        self._at_work: set[asyncio.Task[None]] = set()

    async def work(self, run_id: str, job: int, first: bool) -> None:
        """Execute a run or a call until it has ended, waits for a person, is stopped, or this process stops. Raises no
        error that a run or call causes; a cancellation means that the gateway wants it stopped. first: whether no
        worker had it before."""
        task = asyncio.current_task()
        assert task is not None
        self._at_work.add(task)
        try:
            if run_id.startswith(worker_runs.CALL):
                await self._answer(run_id, job, task)
            else:
                await self._work(run_id, job, task, first=first)
        except Fenced:
            log.error("this worker was taken for dead, and others continue its runs")
            self._fenced()
            raise
        except TakenAway:
            log.warning("%s was taken from this worker, which did not stop it in time", run_id)
        except Exception:  # any defect: the gateway must not wait for a run that no worker executes
            log.exception("the job of %s failed", run_id)
            await self._store.write(partial(worker_runs.end, run_id=run_id, job=job, state=OrderState.STOPPED))
        finally:
            self._at_work.discard(task)

    @property
    def running(self) -> int:
        """The number of runs and calls being executed."""
        return len(self._at_work)

    def leave(self) -> None:
        """Put all runs and calls back, for other workers to continue."""
        self._leaving = True
        for task in self._at_work:
            task.cancel()

    async def _work(self, run_id: str, job: int, task: asyncio.Task[None], *, first: bool) -> None:
        taken = await _to_its_end(self._taken(run_id, job))
        if taken is None:
            return
        row = taken.row
        log.info("run %s is running here", run_id)
        outlet, record = Outlet(self._store, self._draft, run_id, taken.told), self._meter.open(row)
        if first and taken.order.since == 1:  # a new run: its first call was counted with its start
            record.counted = row.model_calls
        self._owners.learn(row.thread_id, row.context.owner)
        try:
            state: OrderState | None = OrderState.STOPPED
            if not task.cancelling() and not self._leaving:  # a job may arrive while this process stops
                with suppress(asyncio.CancelledError):
                    await self._tell(taken, outlet, record)
                    state = OrderState.DONE
            if self._leaving and state is OrderState.STOPPED:
                state = None
            calls = record.calls(row, self._store.clock.now())
            await _to_its_end(outlet.end(partial(_ended, order=taken.order, state=state, calls=calls)))
        except TakenAway:
            await _to_its_end(self._meter.write(run_id))  # the usage was incurred all the same
            raise
        finally:
            self._meter.close(run_id)

    async def _taken(self, run_id: str, job: int) -> Taken | None:
        worker = self._worker() or 0
        found = await self._store.read(partial(_found, run_id=run_id))
        if found is not None and found.is_of(job, worker):
            return found
        return await self._store.write(partial(_take, run_id=run_id, job=job, worker=worker))

    async def _answer(self, call_id: str, job: int, task: asyncio.Task[None]) -> None:
        taking = partial(_take_call, call_id=call_id, job=job, worker=self._worker() or 0)
        taken = await _to_its_end(self._store.write(taking))
        if taken is None:
            return
        log.info("%s is running here", call_id)
        order, asked = taken
        ending: Callable[..., None] = partial(worker_runs.end, state=OrderState.STOPPED)
        if order.deaths >= MOST_DEATHS:
            log.error("%s is abandoned: %d workers died while running it", call_id, order.deaths)
        else:
            answer = None
            if not task.cancelling() and not self._leaving:
                with suppress(asyncio.CancelledError):
                    answer = await answered(await self._harness(), asked)
            if answer is not None:
                ending = partial(worker_runs.answer_call, body=answer)
            elif self._leaving:
                ending = partial(worker_runs.put_back, worker=order.worker)
        await _to_its_end(self._store.write(partial(ending, run_id=call_id, job=job)))

    async def _tell(self, taken: Taken, outlet: Outlet, record: EventRecord) -> None:
        row, order = taken.row, taken.order
        if order.deaths >= MOST_DEATHS:
            log.error("run %s is abandoned: %d workers died while running it", row.run_id, order.deaths)
            return outlet.add(_failed(row, f"{order.deaths} workers died while running it"))
        if taken.unfinished:  # the agent may send the same message again
            outlet.add(TextReset(run_id=row.run_id, seq=0, message_id=taken.unfinished))
        harness = await self._harness()  # a harness counts as in use from its run's first event on
        events = harness.run(row.context, row.input, attempt=order.attempt + order.deaths)
        try:
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, Usage):
                        record.add(event)
                    outlet.add(event)
        except Fenced:
            raise
        except Exception as error:  # any defect: the gateway must not follow a run that reports nothing
            log.exception("run %s failed", row.run_id)
            outlet.add(_failed(row, type(error).__name__))


class Outlet:
    """Writes a run's events in batches: each batch as one row or, as long as it contains only text and progress, as a
    draft of that row. told: the number of rows written before."""

    def __init__(self, store: RetryingStore, draft: Draft, run_id: str, told: int) -> None:
        self._store = store
        self._draft = draft
        self._run_id = run_id
        self._part = told
        self._writes = 0
        self._waiting: list[AnyRunEvent] = []
        self._some, self._over = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(self._serve(), name=f"outlet:{run_id}")

    def add(self, event: AnyRunEvent) -> None:
        if (joined := _joined(self._waiting[-1] if self._waiting else None, event)) is not None:
            self._waiting[-1] = joined
        else:
            self._waiting.append(event)
        self._some.set()

    async def end(self, unit: Callable[[Connection], None]) -> None:
        """Write the rest and run `unit`, in one transaction."""
        self._over.set()
        self._some.set()
        await self._task
        await self._write(unit)

    async def _serve(self) -> None:
        while True:
            await self._some.wait()
            self._some.clear()
            await within(collected_for(self._writes), self._over.wait())
            if self._over.is_set():
                return
            self._writes += 1
            body = to_json(EVENTS, self._waiting)
            if len(body.encode()) < LONGEST_DRAFT and all(isinstance(event, TRANSIENT) for event in self._waiting):
                await self._draft(self._run_id, self._part + 1, body)
            else:
                await self._write()

    async def _write(self, last: Callable[[Connection], None] | None = None) -> None:
        events, self._waiting = self._waiting, []
        self._part += bool(events)
        part, body = self._part, to_json(EVENTS, events)
        further = any(isinstance(event, StepsEnded) for event in events)

        def unit(tx: Connection) -> None:
            self._store.check_run(tx, self._run_id)
            if events:
                worker_runs.append(tx, self._run_id, part, body, further=further)
            if last is not None:
                last(tx)

        if events or last is not None:
            await self._store.write(unit)


def collected_for(parts: int) -> float:
    """Seconds until the next write, after that many writes."""
    return min(TOLD_MOST, TOLD_FIRST + parts * TOLD_GROWS)


def _joined(before: AnyRunEvent | None, event: AnyRunEvent) -> AnyRunEvent | None:
    """One event equivalent to both; None if they cannot be joined."""
    if isinstance(event, TextDelta | ReasoningDelta):
        if type(before) is type(event) and before.message_id == event.message_id:
            return replace(event, text=before.text + event.text)
    elif isinstance(event, ToolProgress | SubagentProgress):
        return event if type(before) is type(event) and before.call_id == event.call_id else None
    return None


def _found(tx: Connection, *, run_id: str) -> Taken | None:
    """Find a run; None if it is no longer wanted, or cannot be executed here."""
    order, parts = worker_runs.told(tx, run_id, 0)
    row = runs.load(tx, run_id)
    if order is None or row is None or row.state.ended or not row.is_readable:
        return None
    texts = [event for part in parts for event in EVENTS.validate_json(part.body) if isinstance(event, TextDelta)]
    return Taken(order, row, sum(part.whole for part in parts), texts[-1].message_id if texts else "")


def _take(tx: Connection, *, run_id: str, job: int, worker: int) -> Taken | None:
    order, found = worker_runs.take(tx, run_id, job, worker), _found(tx, run_id=run_id)
    if order is not None and found is None:
        worker_runs.end(tx, run_id, job, OrderState.STOPPED)
    return None if order is None else found


def _take_call(tx: Connection, *, call_id: str, job: int, worker: int) -> tuple[Order, str] | None:
    """Take a call; return the order and the request, None if it is no longer wanted."""
    order = worker_runs.take(tx, call_id, job, worker)
    return None if order is None else (order, worker_runs.asked(tx, call_id))


def _ended(tx: Connection, *, order: Order, state: OrderState | None, calls: Sequence[usage.UsageRow]) -> None:
    """Write the end with the last events. state: None if the run is put back. calls: those not written yet."""
    usage.add(tx, calls)
    if state is None:
        worker_runs.put_back(tx, order.run_id, order.job, order.worker)
    else:
        worker_runs.end(tx, order.run_id, order.job, state)


def _failed(row: RunRow, detail: str) -> Failed:
    model = row.context.model
    return Failed(run_id=row.run_id, seq=0, kind=FailureKind.INTERNAL, model=model, detail_for_log=detail)


async def _to_its_end(work: Coroutine[None, None, T]) -> T:
    """Await `work` to its end despite cancellations, and return its result."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    return task.result()


class StoreSteering:
    """harness.ports.Steering of a worker: when asked, the gateway adds new messages to the run's row."""

    def __init__(self, store: RetryingStore) -> None:
        self._store = store

    async def said(self, ctx: RunContext, *, more: bool = True) -> Sequence[RunInput]:
        """Ask the gateway only if a message waits; without an answer, e.g. while no gateway runs, continue as is."""
        waits = partial(worker_runs.somebody_waits, conversation=ctx.conversation)
        if more and await self._store.read(waits):
            await self._asked(ctx.run_id)
        row = await self._store.read(partial(runs.load, run_id=ctx.run_id))
        return row.input.steered if row is not None else ()

    async def _asked(self, run_id: str) -> None:
        number = await self._store.write(partial(worker_runs.ask, run_id=run_id))
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                while True:
                    order = await self._store.read(partial(worker_runs.load, run_id=run_id))
                    if order is None or order.heard >= number:
                        return
                    await asyncio.sleep(LOOK_EVERY)
