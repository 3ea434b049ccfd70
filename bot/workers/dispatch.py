"""Dispatch: orders runs and follows what workers tell of them. Staff: what a gateway has for its workers."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress
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
"""With one of these an order has told all."""
LAST_TYPES = ("approval_requested", "finished", "failed")
LOOK_SECONDS = 3.0
"""After which a run's rows are read again although no word of them came: a lost connection may have lost it."""
STOP_SECONDS = 2.0
"""In which a worker that is told to stop lets go; else what it is at is taken from it."""
TIDY_SECONDS = 10.0
AGAIN_SECONDS = 1.0
SIGHT_SECONDS = 5.0
"""As old as what is told of workers may be."""


class DeadWorkers:
    """Gives the jobs of workers without a sign of life to others. Every gateway and every worker looks after that."""

    def __init__(self, store: RetryingStore) -> None:
        self._store = store
        self._steady_since = self._reached = store.clock.monotonic()

    async def serve(self) -> None:
        """Look again and again, until cancelled."""
        await every(TIDY_SECONDS, self._store.clock, "looking after workers", self.look)

    async def look(self) -> None:
        """Only once this process has itself reached the database for as long as a worker may be silent: after an outage
        the others are as alive as this one. So they are after this one was frozen, as with its whole machine, and after
        the server let all of them wait."""
        written, now = await self._store.tried(lambda tx: None), self._store.clock.monotonic()
        if not written or now - self._reached > 2 * TIDY_SECONDS:
            self._steady_since = now
        self._reached = now
        if now - self._steady_since > worker_runs.STALLED_SECONDS:
            moved = await self._store.write(worker_runs.recover)
            if moved:
                log.warning("%d run(s) or call(s) of dead workers go on at others", moved)


class Dispatch:
    """Orders runs, follows them, stops them. One in a gateway. calls: what else it asks of workers.

    steering: what is said to runs at work. leaving: this process stops, and the runs go on without it. hears: called
    before what a worker has told is passed on.
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
        """Order the work on a run, or follow it where it is ordered already; see `Harness.run`. Leaving the iteration
        stops the work, except when this process stops."""
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
        """Stop what a worker still does in a thread in which nothing is to run, and wait until it has let go."""
        for run_id in await self._store.read(partial(worker_runs.at_work, thread_id=thread_id)):
            await self._let_go(run_id)

    async def forget(self, thread_id: str) -> None:
        """Nothing that was told in the thread is kept here."""
        await self._store.write(partial(worker_runs.discard_thread, thread_id=thread_id))

    async def tidy(self) -> None:
        """Give the jobs of dead workers to others; stop and forget what no run needs any more; until cancelled."""
        await every(TIDY_SECONDS, self._store.clock, "looking after workers", self._tidy)

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
        if next_seq > order.since:  # an earlier process followed it, as far as its events were written
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
                with suppress(TimeoutError):
                    await asyncio.wait_for(word.wait(), LOOK_SECONDS)
        if not isinstance(last, LAST):
            detail = "its worker was told to stop, but not by this process"
            yield Failed(run_id=ctx.run_id, seq=seq, kind=FailureKind.INTERNAL, model=ctx.model, detail_for_log=detail)

    async def _let_go(self, run_id: str) -> None:
        """Stop the work on a run; returns when no worker is at it, or may write of it. Goes on when the caller is
        cancelled."""
        task = self._stopping.get(run_id)
        if task is None:
            task = self._stopping[run_id] = asyncio.create_task(self._stop(run_id), name=f"stop:{run_id}")
            task.add_done_callback(lambda _: self._stopping.pop(run_id, None))
        await asyncio.shield(task)

    async def _stop(self, run_id: str) -> None:
        """A worker that does not answer is frozen, or out of reach: then it is taken away from it."""
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
                with suppress(TimeoutError):
                    await asyncio.wait_for(word.wait(), left if left > 0 else AGAIN_SECONDS)

    async def close(self) -> None:
        """Wait for no worker any more."""
        for task in list(self._stopping.values()):
            task.cancel()
        await asyncio.gather(*self._stopping.values(), return_exceptions=True)


@dataclass(slots=True)
class Known:
    """What of an order's events an earlier process of the gateway has written down: calls by type and id, and how many
    calls of models. Texts are told once more."""

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
        """Those that are to be told, with word that a text is told from its beginning."""
        for event in events:
            if isinstance(event, Usage) and self.usage:
                self.usage -= 1
            elif isinstance(event, LAST) or (event.type, getattr(event, "call_id", "")) not in self.calls:
                if self.again and isinstance(event, TextDelta) and event.message_id not in self.begun:
                    self.begun.add(event.message_id)
                    yield TextReset(run_id=event.run_id, seq=event.seq, message_id=event.message_id)
                yield event


def continued(begun: Sequence[RunEvent], events: Sequence[RunEvent]) -> Iterator[RunEvent]:
    """What these events of a part tell that its draft, `begun`, did not yet. Where they do not go on with it, as after
    the death of a worker, the draft's words are taken back."""
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
    """What a draft's last event has become since; None where it has become something else."""
    if now == before:
        return ()
    if isinstance(before, TextDelta | ReasoningDelta) and isinstance(now, TextDelta | ReasoningDelta):
        same = (before.type, before.message_id) == (now.type, now.message_id) and now.text.startswith(before.text)
        return (replace(now, text=now.text[len(before.text) :]),) if same else None
    if isinstance(before, ToolProgress | SubagentProgress) and isinstance(now, ToolProgress | SubagentProgress):
        return (now,) if (before.type, before.call_id) == (now.type, now.call_id) else None
    return None


def _standing(tx: Connection, *, run_id: str) -> Order | None:
    """The order that is to be followed. One that has told all is followed once more where its last event was not
    written down before the gateway died."""
    known = worker_runs.standing(tx, run_id)
    if known is not None and known.state is OrderState.DONE:
        rows = run_events.read(tx, run_id, known.since - 1)
        return None if any(kind in LAST_TYPES for _, kind, _ in rows) else known
    return None if known is None or known.state is not OrderState.OPEN else known


def _ordered(tx: Connection, *, ctx: RunContext, attempt: int, since: int) -> Order:
    """The order that is to be followed, made where there is none."""
    known = _standing(tx, run_id=ctx.run_id)
    return known or worker_runs.order(tx, ctx.run_id, ctx.thread_id, attempt=attempt, since=since)


class Staff:
    """What a gateway has for its workers, and what it knows of them.

    due: told when one of them made a reminder. learn: told of each secret that they obtain. For the others see
    `Dispatch`.
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
        # A worker keeps a token before it uses it: so it is known here before anything that may repeat it.
        tokens = KeptTokens(settings.data_dir, learn)
        self._dispatch = Dispatch(store, self._listener, steering, leaving, tokens.look)
        self._clock = store.clock
        self._prepared = asyncio.Event()

    @staticmethod
    def order(tx: Connection, row: RunRow, seq: int) -> None:
        """Order the work on a run that starts; part of the caller's unit. seq: of its next event."""
        _ordered(tx, ctx=row.context, attempt=row.attempt, since=seq)

    @staticmethod
    def after(row: RunRow, _ending: Ending, _text: str) -> Aftermath:
        """End a run's order with the run: a stop may come before anybody follows it."""
        return Aftermath(unit=partial(worker_runs.stop, run_id=row.run_id))

    def load(self, own: Callable[[], Awaitable[MakeHarness]]) -> Callable[[], Awaitable[MakeHarness]]:
        """What loads, in the place of `own`, what makes the harness of this gateway, once the server answers. Raises
        SetupError where the package is missing, psycopg.Error."""

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
            except psycopg.OperationalError as error:  # the store waits for the server, too
                log.warning("runs cannot be given to workers now: %s", error)
                await self._clock.sleep(AGAIN_SECONDS)
            else:
                return self._prepared.set()

    def begin(self, tasks: Tasks) -> None:
        """Listen to workers, and look after them, until the tasks are cancelled."""
        tasks.spawn("word of workers", self._listener.serve())
        tasks.spawn("workers", self._look_after())

    async def _look_after(self) -> None:
        await self._prepared.wait()
        await asyncio.gather(self._dispatch.tidy(), self._look())

    async def _look(self) -> None:
        await every(SIGHT_SECONDS, self._clock, "looking at workers", self.workers.look)

    async def close(self) -> None:
        """Wait for no worker any more."""
        await self._dispatch.close()


async def prepare(url: str) -> None:
    """Make procrastinate's tables where they are missing. url: as libpq takes it. Raises SetupError, psycopg.Error."""
    try:
        from bot.workers import queue
    except ImportError as error:
        raise SetupError(MISSING.format(error.name)) from error
    await queue.prepare(url)


MISSING = "workers: {} is not installed; pip install 'antler[scale]'"
