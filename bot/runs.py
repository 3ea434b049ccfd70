"""RunManager: executes runs: start or resume, stream into the reply, end in one transaction with its answer.

Opened by the conversation's actor (conversations.py), which also decides what runs next.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from bot.render import RunView
from bot.store import inbox, run_events, runs, usage
from bot.store.rows import InboxState, RunRow, RunState
from bot.stream import StreamBridge
from bot.texts import texts_for
from channels.message import OutboundMessage
from harness.context import RUN_CONTEXT, RUN_INPUT
from harness.events import RUN_EVENT, Failed, FailureKind, Finished, Outcome, TextDelta, TextReset, Usage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sqlalchemy import Connection

    from bot.delivery import Delivery, Reply
    from bot.patience import PatientStore
    from bot.texts.catalogue import Texts
    from channels.base import Clock
    from harness.context import RunContext
    from harness.ports import AnyRunEvent, Harness

log = logging.getLogger(__name__)

ATTEMPTS = 3
"""Starts without progress after which a run is a dead letter."""


class StopReason(StrEnum):
    STOPPED = "stopped"
    NEW_THREAD = "new_thread"
    SUSPENDED = "suspended"


@dataclass(frozen=True, slots=True)
class RunLimits:
    """concurrent: runs that work at once; seconds: the longest that one may take."""

    concurrent: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: its state, what the chat shows, and a word for the log and the run row."""

    state: RunState
    message: OutboundMessage
    detail: str = ""


@dataclass(slots=True)
class EventRecord:
    """What of a run's events is kept: deltas folded to one row per message."""

    rows: list[tuple[int, str, str]] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)
    _folding: TextDelta | None = None

    def add(self, event: AnyRunEvent) -> None:
        if isinstance(event, TextDelta):
            previous = self._folding
            if previous and previous.message_id == event.message_id:
                event = TextDelta(
                    run_id=event.run_id, seq=event.seq, message_id=event.message_id, text=previous.text + event.text
                )
            else:
                self.flush()
            self._folding = event
            return
        if isinstance(event, TextReset) and self._folding and self._folding.message_id == event.message_id:
            self._folding = None
        self.flush()
        if isinstance(event, Usage):
            self.usage.append(event)
        self._keep(event)

    def flush(self) -> None:
        if self._folding is not None:
            self._keep(self._folding)
            self._folding = None

    def _keep(self, event: AnyRunEvent) -> None:
        self.rows.append((event.seq, event.type, RUN_EVENT.dump_json(event).decode()))


@dataclass(slots=True)
class ActiveRun:
    """A run that this process works on. `view` is what /status reads."""

    row: RunRow
    context: RunContext
    texts: Texts
    reply: Reply
    began: float
    view: RunView = field(default_factory=RunView)
    record: EventRecord = field(default_factory=EventRecord)
    bridge: StreamBridge = field(default_factory=StreamBridge)
    stop_reason: StopReason | None = None
    worker: asyncio.Task[Ending] | None = None


class RunManager:
    """Runs of all conversations. harness: awaited by each run, so that channels may listen before it is imported."""

    def __init__(
        self,
        *,
        store: PatientStore,
        delivery: Delivery,
        harness: Callable[[], Awaitable[Harness]],
        clock: Clock,
        limits: RunLimits,
        on_dead_letter: Callable[[RunRow], None],
    ) -> None:
        self._store = store
        self._delivery = delivery
        self._harness = harness
        self._clock = clock
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.concurrent)
        self._on_dead_letter = on_dead_letter
        self._suspending = False
        self.active: dict[str, ActiveRun] = {}

    async def execute(self, row: RunRow) -> None:
        """Work on a run until it ended or the process stops. Raises nothing that a run can cause."""
        if self._suspending:
            return
        context = RUN_CONTEXT.validate_json(row.context)
        reply = await self._delivery.open(row.reply_key, row.address, row.reply_to)
        active = ActiveRun(row, context, texts_for(context.locale), reply, self._clock.monotonic())
        self.active[row.run_id] = active
        try:
            ending = await self._supervise(active)
            if ending is not None:
                await self._end(active, ending)
        finally:
            active.bridge.close()
            del self.active[row.run_id]

    def stop(self, run_id: str, reason: StopReason) -> bool:
        """Stop a run; False when it is not being worked on, or is already ending."""
        active = self.active.get(run_id)
        if active is None or active.worker is None or active.stop_reason is not None or active.worker.done():
            return False
        active.stop_reason = reason
        active.worker.cancel()
        return True

    def suspend(self) -> None:
        """A planned stop: every run pauses where it is and goes on at the next start."""
        self._suspending = True
        for run_id in list(self.active):
            self.stop(run_id, StopReason.SUSPENDED)

    async def drop(self, row: RunRow, text: str) -> None:
        """End a run that never started, with an honest sentence."""
        await self._commit_end(row, Ending(RunState.INTERRUPTED, RunView().ended(text), "dropped"), EventRecord())

    async def _supervise(self, active: ActiveRun) -> Ending | None:
        """The run's ending, or None when it was suspended."""
        active.worker = asyncio.create_task(self._work(active), name=f"run:{active.row.run_id}")
        show = asyncio.create_task(self._show(active), name=f"show:{active.row.run_id}")
        try:
            await asyncio.wait({active.worker})
        finally:
            show.cancel()
            if not active.worker.done():
                active.worker.cancel()
        if not active.worker.cancelled():
            return active.worker.result()
        match active.stop_reason:
            case StopReason.SUSPENDED:
                await self._pause(active)
                return None
            case StopReason.NEW_THREAD:
                sentence = active.texts.stopped_by_new
            case _:
                sentence = active.texts.stopped
        return Ending(RunState.INTERRUPTED, active.view.ended(sentence), str(active.stop_reason))

    async def _show(self, active: ActiveRun) -> None:
        """Render is the first reader of the run's stream; what it missed does not matter, it shows the state."""
        active.reply.show(active.view.draft(active.texts))
        async for _ in active.bridge.read():
            active.reply.show(active.view.draft(active.texts))

    async def _work(self, active: ActiveRun) -> Ending:
        async with self._slots:
            harness = await self._harness()
            try:
                async with asyncio.timeout(self._limits.seconds) as limit:
                    return await self._drive(active, harness)
            except TimeoutError:
                if not limit.expired():
                    raise
                duration = active.texts.duration(self._limits.seconds)
                sentence = active.texts.timed_out.format(duration=duration)
                return Ending(RunState.TIMEOUT, active.view.ended(sentence), "run_seconds")

    async def _drive(self, active: ActiveRun, harness: Harness) -> Ending:
        head = await harness.head(active.row.thread_id)
        now = self._clock.now()
        active.row = await self._store.write(lambda tx: runs.start(tx, active.row.run_id, head, now, self._store.epoch))
        if active.row.attempt > ATTEMPTS:
            self._on_dead_letter(active.row)
            sentence = active.texts.gave_up.format(attempts=ATTEMPTS)
            return Ending(RunState.ERROR, active.view.ended(sentence), "dead letter")
        seq = await self._store.read(lambda tx: run_events.last_seq(tx, active.row.run_id))
        run_input = RUN_INPUT.validate_json(active.row.input)
        last: AnyRunEvent | None = None
        events = harness.run(active.context, run_input, attempt=active.row.attempt, next_seq=(seq or 0) + 1)
        async for event in events:
            active.view.apply(event, active.texts)
            active.record.add(event)
            active.bridge.publish(event)
            last = event
        return self._ending(active, last)

    def _ending(self, active: ActiveRun, last: AnyRunEvent | None) -> Ending:
        match last:
            case Finished():
                state = RunState.LIMITED if last.outcome is Outcome.LIMITED else RunState.SUCCESS
                return Ending(state, active.view.answer(last))
            case Failed():
                log.error("run %s failed (%s, %s): %s", last.run_id, last.kind, last.model, last.detail_for_log)
                return Ending(RunState.ERROR, active.view.failure(last, active.texts), str(last.kind))
            case _:
                log.error("run %s ended without an ending", active.row.run_id)
                sentence = active.texts.failures[FailureKind.INTERNAL].format(model="", wait="")
                return Ending(RunState.ERROR, active.view.ended(sentence), "no ending")

    async def _pause(self, active: ActiveRun) -> None:
        draft = active.view.draft(active.texts)
        active.reply.show(OutboundMessage(text=draft.text, status=active.texts.paused))
        active.reply.suspend()
        active.record.flush()
        record = active.record

        def unit(tx: Connection) -> None:
            runs.suspend(tx, active.row.run_id)
            self._keep_record(tx, active.row, record)

        await self._store.write(unit)

    async def _end(self, active: ActiveRun, ending: Ending) -> None:
        active.record.flush()
        log.info(
            "run %s %s%s after %.1f s, %d model calls, %s",
            active.row.run_id,
            ending.state,
            f" ({ending.detail})" if ending.detail else "",
            self._clock.monotonic() - active.began,
            active.view.model_calls,
            active.row.conversation,
        )
        await self._commit_end(active.row, ending, active.record)

    async def _commit_end(self, row: RunRow, ending: Ending, record: EventRecord) -> None:
        now = self._clock.now()

        def unit(tx: Connection) -> None:
            runs.end(tx, row.run_id, ending.state, now, ending.detail)
            self._keep_record(tx, row, record)
            inbox.settle(tx, row.inbox_ids, InboxState.DONE, str(ending.state))
            self._delivery.finalize(tx, row.reply_key, row.address, row.reply_to, ending.message)

        await self._store.write(unit)
        self._delivery.finished(row.reply_key, row.address, row.reply_to, ending.message)

    def _keep_record(self, tx: Connection, row: RunRow, record: EventRecord) -> None:
        run_events.append(tx, row.run_id, record.rows)
        for used in record.usage:
            usage.add(
                tx,
                run_id=row.run_id,
                thread_id=row.thread_id,
                model=used.model,
                input_tokens=used.input_tokens,
                output_tokens=used.output_tokens,
                cached_tokens=used.cached_tokens,
                now=self._clock.now(),
            )
