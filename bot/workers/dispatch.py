"""Dispatch: orders runs and follows the events that workers report. Staff: a gateway's side of its workers."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import psycopg
from pydantic import TypeAdapter

from bot.operations.workers import Workers
from bot.runs.endings import Aftermath
from bot.store import run_events, worker_runs
from bot.store.retrying import every
from bot.store.sql import libpq_url
from bot.store.store import AT_ONCE_SECONDS
from bot.store.worker_runs import OrderState
from bot.store.workers import ANSWERS
from bot.workers.calls import Calls
from bot.workers.harness import WorkersHarness
from bot.workers.listening import Listener
from channels.supervision import within
from harness.errors import SetupError
from harness.events import (
    ApprovalRequested,
    Failed,
    FailureKind,
    Finished,
    ReasoningDelta,
    RunEvent,
    SubagentProgress,
    TextDelta,
    TextReset,
    ToolProgress,
    Usage,
)
from harness.mcp.kept import KeptTokens

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence

    from sqlalchemy import Connection

    from bot.runs.endings import Ending
    from bot.settings import Settings
    from bot.store.retrying import RetryingStore
    from bot.store.rows import RunRow
    from bot.store.worker_runs import Order
    from bot.tasks import Tasks
    from harness.agents.parts import Parts
    from harness.context import RunContext
    from harness.events import AnyRunEvent
    from harness.ports import Harness, Steering

    MakeHarness = Callable[[Parts, str, Harness | None], Awaitable[Harness]]

log = logging.getLogger(__name__)

EVENTS: TypeAdapter[list[RunEvent]] = TypeAdapter(list[RunEvent])
LAST = (ApprovalRequested, Finished, Failed)
"""The last event of an order is one of these."""
LAST_TYPES = ("approval_requested", "finished", "failed")
LOOK_SECONDS = 3.0
"""Seconds after which a run's rows are read again without a notification: a lost connection may have lost it."""
STOP_SECONDS = 2.0
"""Seconds for a worker to let go after it was told to stop; after that, its work is taken from it."""
TIDY_SECONDS = 10.0
AGAIN_SECONDS = 1.0
SIGHT_SECONDS = 5.0
"""Maximum age of the shown status of workers."""


class DeadWorkers:
    """Hands the jobs of workers without a heartbeat to others. Runs in every gateway and every worker."""

    def __init__(self, store: RetryingStore) -> None:
        self._store = store
        self._steady_since = self._reached = store.clock.monotonic()

    async def serve(self) -> None:
        """Check periodically, until cancelled. Begins after a pause: a worker may write once it is registered."""
        await self._store.clock.sleep(TIDY_SECONDS)
        await every(TIDY_SECONDS, self._store.clock, "moving runs of dead workers", self.look)

    async def look(self) -> None:
        """Hand over the jobs of dead workers, but only once this process itself has reached the database for as long as
        a worker may be silent: after an outage, the others are as alive as this process. The same holds after this
        process was frozen, e.g. with its machine, and after the server made all of them wait."""
        written, now = await self._store.tried(lambda tx: None), self._store.clock.monotonic()
        if not written or now - self._reached > 2 * TIDY_SECONDS:
            self._steady_since = now
        self._reached = now
        if now - self._steady_since > worker_runs.STALLED_SECONDS:
            moved = await self._store.write(worker_runs.recover)
            if moved:
                log.warning("%d run(s) or call(s) of dead workers were given to others", moved)


class Dispatch:
    """Orders, follows and stops runs; one per gateway. calls: its other requests to workers.

    steering: the messages to active runs. leaving: whether this process is stopping, while the runs continue without
    it. hears: called before a worker's events are passed on.
    """

    def __init__(
        self,
        store: RetryingStore,
        listener: Listener,
        steering: Callable[[], Steering],
        leaving: Callable[[], bool],
        hears: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._store = store
        self._listener = listener
        self._steering = steering
        self._leaving = leaving
        self._hears = hears
        self._stopping: dict[str, asyncio.Task[None]] = {}
        self._dead = DeadWorkers(store)
        self.calls = Calls(store, listener, self._let_go, leaving)

    async def run(self, ctx: RunContext, attempt: int, next_seq: int) -> AsyncGenerator[AnyRunEvent, None]:
        """Order the work on a run, or follow an existing order; see `Harness.run`. Leaving the iteration stops the
        work, except when this process is stopping."""
        order = await self._store.read(partial(_standing, run_id=ctx.run_id))
        if order is None:
            order = await self._store.write(partial(_ordered, ctx=ctx, attempt=attempt, since=next_seq))
        over = False
        try:
            async with aclosing(self._follow(ctx, order, next_seq)) as events:
                async for event in events:
                    yield event
            over = True
        finally:
            if not over and not self._leaving():
                await self._let_go(ctx.run_id)

    async def quiet(self, thread_id: str) -> None:
        """Stop all work of workers in a thread in which nothing may run, and wait until they have let go."""
        for run_id in await self._store.read(partial(worker_runs.at_work, thread_id=thread_id)):
            await self._let_go(run_id)

    async def forget(self, thread_id: str) -> None:
        """Delete everything that was reported in the thread."""
        await self._store.write(partial(worker_runs.discard_thread, thread_id=thread_id))

    async def tidy(self) -> None:
        """Hand the jobs of dead workers to others; stop and discard unneeded orders; until cancelled."""
        await every(TIDY_SECONDS, self._store.clock, "tidying up after workers", self._tidy)

    async def _tidy(self) -> None:
        await self._dead.look()
        still, rest = await self._store.read(worker_runs.unwanted)
        for run_id in still:
            await self._store.write(partial(worker_runs.stop, run_id=run_id))
        if rest:
            await self._store.write(partial(worker_runs.discard, run_ids=rest))
        await self.calls.tidy()

    async def _follow(self, ctx: RunContext, order: Order, next_seq: int) -> AsyncGenerator[AnyRunEvent, None]:
        known = Known()
        if next_seq > order.since:  # an earlier process followed it up to the last written event
            rows = await self._store.read(partial(run_events.read, run_id=ctx.run_id, after_seq=order.since - 1))
            known = Known.of(rows)
        part, seq, last = 0, next_seq, None
        begun: list[RunEvent] = []
        with self._listener.listening(ctx.run_id) as word:
            while True:
                word.clear()
                found, parts = await self._store.read(partial(worker_runs.told, run_id=ctx.run_id, after=part))
                if found is not None and found.asked > found.heard:
                    await self._steering().said(ctx)
                    await self._store.write(partial(worker_runs.answer, run_id=ctx.run_id, asked=found.asked))
                if parts and self._hears is not None:
                    await self._hears()
                for told in parts:
                    events = EVENTS.validate_json(told.body)
                    for event in known.new(continued(begun, events)):
                        last = replace(event, seq=seq)
                        seq += 1
                        yield last
                    part, begun = (told.number, []) if told.whole else (part, events)
                if found is None or found.state is not OrderState.OPEN:
                    break
                await within(LOOK_SECONDS, word.wait())
        if not isinstance(last, LAST):
            detail = "its worker was stopped by another process"
            yield Failed(run_id=ctx.run_id, seq=seq, kind=FailureKind.INTERNAL, model=ctx.model, detail_for_log=detail)

    async def _let_go(self, run_id: str) -> None:
        """Stop the work on a run; return when no worker has it or may write about it. Continues if the caller is
        cancelled."""
        task = self._stopping.get(run_id)
        if task is None:
            task = self._stopping[run_id] = asyncio.create_task(self._stop(run_id), name=f"stop:{run_id}")
            task.add_done_callback(lambda _: self._stopping.pop(run_id, None))
        await asyncio.shield(task)

    async def _stop(self, run_id: str) -> None:
        """Stop a run; take it from a worker that does not respond because it is frozen or unreachable."""
        clock = self._store.clock
        patient_until = clock.monotonic() + STOP_SECONDS
        with self._listener.listening(run_id) as word:
            while True:
                word.clear()
                if await self._store.write(partial(worker_runs.stop, run_id=run_id)):
                    return
                left = patient_until - clock.monotonic()
                if left <= 0 and await self._store.write(partial(worker_runs.take_away, run_id=run_id)):
                    log.warning("run %s was taken from a worker that did not stop it", run_id)
                    return await clock.sleep(2 * AT_ONCE_SECONDS)
                await within(left if left > 0 else AGAIN_SECONDS, word.wait())

    async def close(self) -> None:
        """Stop waiting for workers."""
        for task in list(self._stopping.values()):
            task.cancel()
        await asyncio.gather(*self._stopping.values(), return_exceptions=True)


@dataclass(slots=True)
class Known:
    """The events of an order that an earlier gateway process already recorded: calls by type and id, and the number of
    model calls. Texts are reported again."""

    calls: set[tuple[str, str]] = field(default_factory=set)
    usage: int = 0
    again: bool = False
    begun: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, rows: Sequence[run_events.Event]) -> Known:
        events = EVENTS.validate_json(f"[{','.join(body for _, _, body in rows)}]")
        calls = {(str(event.type), str(event.call_id)) for event in events if hasattr(event, "call_id")}
        return cls(calls, sum(isinstance(event, Usage) for event in events), again=True)

    def new(self, events: Iterable[AnyRunEvent]) -> Iterator[AnyRunEvent]:
        """The events that must be reported, with a TextReset before a text that is reported again from its start."""
        for event in events:
            if isinstance(event, Usage) and self.usage:
                self.usage -= 1
            elif isinstance(event, LAST) or (event.type, getattr(event, "call_id", "")) not in self.calls:
                if self.again and isinstance(event, TextDelta) and event.message_id not in self.begun:
                    self.begun.add(event.message_id)
                    yield TextReset(run_id=event.run_id, seq=event.seq, message_id=event.message_id)
                yield event


def continued(begun: Sequence[RunEvent], events: Sequence[RunEvent]) -> Iterator[RunEvent]:
    """The events of a part that its draft, `begun`, did not yet contain. If they do not continue the draft, e.g. after
    the death of a worker, the draft's text is reset."""
    last = len(begun) - 1
    same = list(begun[:last]) == list(events[:last]) and len(events) > last
    if last < 0:
        yield from events
    elif same and (grown := _grown(begun[last], events[last])) is not None:
        yield from (*grown, *events[last + 1 :])
    else:
        taken_back = {event.message_id: event for event in begun if isinstance(event, TextDelta)}
        for message_id, event in taken_back.items():
            yield TextReset(run_id=event.run_id, seq=event.seq, message_id=message_id)
        yield from events


def _grown(before: RunEvent, now: RunEvent) -> tuple[RunEvent, ...] | None:
    """The growth of a draft's last event; None if the new event does not continue it."""
    if now == before:
        return ()
    if isinstance(before, TextDelta | ReasoningDelta) and isinstance(now, TextDelta | ReasoningDelta):
        same = (before.type, before.message_id) == (now.type, now.message_id) and now.text.startswith(before.text)
        return (replace(now, text=now.text[len(before.text) :]),) if same else None
    if isinstance(before, ToolProgress | SubagentProgress) and isinstance(now, ToolProgress | SubagentProgress):
        return (now,) if (before.type, before.call_id) == (now.type, now.call_id) else None
    return None


def _standing(tx: Connection, *, run_id: str) -> Order | None:
    """The order to follow, if any. A done order is followed again if its last event was not recorded before the gateway
    died."""
    known = worker_runs.load(tx, run_id)
    if known is not None and known.state is OrderState.DONE:
        rows = run_events.read(tx, run_id, known.since - 1)
        return None if any(kind in LAST_TYPES for _, kind, _ in rows) else known
    return None if known is None or known.state is not OrderState.OPEN else known


def _ordered(tx: Connection, *, ctx: RunContext, attempt: int, since: int) -> Order:
    """The order to follow, created if there is none."""
    known = _standing(tx, run_id=ctx.run_id)
    return known or worker_runs.order(tx, ctx.run_id, ctx.thread_id, attempt=attempt, since=since)


class Staff:
    """A gateway's side of its workers, and what it knows about them.

    due: called when a worker has created a reminder. learn: called with each secret that workers obtain. For the
    others see `Dispatch`.
    """

    def __init__(
        self,
        settings: Settings,
        store: RetryingStore,
        *,
        steering: Callable[[], Steering],
        leaving: Callable[[], bool],
        due: Callable[[], None],
        learn: Callable[[str], None],
    ) -> None:
        self._url = libpq_url(settings.checkpoints)
        self._listener = Listener(self._url, store.clock, due)
        self.workers = Workers(store, partial(self._listener.listening, ANSWERS))
        # A worker stores a token before using it, so it is known here before any event that may repeat it.
        tokens = KeptTokens(settings.data_dir, learn)
        self._dispatch = Dispatch(store, self._listener, steering, leaving, tokens.look)
        self._clock = store.clock
        self._prepared = asyncio.Event()

    @staticmethod
    def order(tx: Connection, row: RunRow, seq: int) -> None:
        """Order the work on a starting run, as part of the caller's unit. seq: of its next event."""
        _ordered(tx, ctx=row.context, attempt=row.attempt, since=seq)

    @staticmethod
    def after(row: RunRow, _ending: Ending, _text: str) -> Aftermath:
        """End a run's order together with the run, which may be stopped before its order is followed."""
        return Aftermath(unit=partial(worker_runs.stop, run_id=row.run_id))

    def load(self, own: Callable[[], Awaitable[MakeHarness]]) -> Callable[[], Awaitable[MakeHarness]]:
        """Return a replacement for `own` that waits until the server answers and then makes this gateway's harness. The
        replacement raises SetupError if the package is missing, psycopg.Error."""

        async def load() -> MakeHarness:
            await self._prepare()
            make = await own()

            async def made(parts: Parts, database: str, former: Harness | None) -> Harness:
                before = former.local if isinstance(former, WorkersHarness) else former
                return WorkersHarness(await make(parts, database, before), self._dispatch)

            return made

        return load

    async def _prepare(self) -> None:
        while True:
            try:
                await prepare(self._url)
            except psycopg.OperationalError as error:  # the store also waits for the server
                log.warning("runs cannot be assigned to workers now: %s", error)
                await self._clock.sleep(AGAIN_SECONDS)
            else:
                return self._prepared.set()

    def begin(self, tasks: Tasks) -> None:
        """Listen to workers and supervise them, until the tasks are cancelled."""
        tasks.spawn("word of workers", self._listener.serve())
        tasks.spawn("workers", self._look_after())

    async def _look_after(self) -> None:
        await self._prepared.wait()
        looking = every(SIGHT_SECONDS, self._clock, "reading the state of workers", self.workers.look)
        await asyncio.gather(self._dispatch.tidy(), looking)

    async def close(self) -> None:
        """Stop waiting for workers."""
        await self._dispatch.close()


async def prepare(url: str) -> None:
    """Create procrastinate's tables if missing. url: in libpq's form. Raises SetupError, psycopg.Error."""
    try:
        from bot.workers import queue
    except ImportError as error:
        raise SetupError(MISSING.format(error.name)) from error
    await queue.prepare(url)


MISSING = "workers: {} is not installed; pip install 'antler[scale]'"
