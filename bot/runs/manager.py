"""RunManager: executes runs: start or resume, stream into the reply, end in one transaction with its answer.

Opened by the conversation's actor (bot/conversations/), which also decides what runs next.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from bot.buttons import retry_buttons, retry_question
from bot.runs import endings
from bot.runs.active import ActiveRun
from bot.runs.endings import Ending, StopReason
from bot.runs.record import EventRecord
from bot.store import prompts, run_events, runs
from bot.store.errors import StoreError
from bot.store.rows import RunState
from bot.texts import texts_for
from channels.message import OutboundMessage
from harness.context import RUN_CONTEXT, RUN_INPUT
from harness.events import Finished

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sqlalchemy import Connection

    from bot.delivery import Delivery, Reply
    from bot.patience import PatientStore
    from bot.runs.active import RunLimits
    from bot.runs.presented import Presented
    from bot.store.rows import RunRow
    from channels.base import Clock
    from harness.ports import AnyRunEvent, Harness

log = logging.getLogger(__name__)

ATTEMPTS = 3
"""Starts without progress after which a run is a dead letter."""


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
        presented: Presented,
        on_dead_letter: Callable[[RunRow], None],
    ) -> None:
        self._store = store
        self._delivery = delivery
        self._harness = harness
        self._clock = clock
        self._limits = limits
        self._presented = presented
        self._slots = asyncio.Semaphore(limits.concurrent)
        self._on_dead_letter = on_dead_letter
        self._suspending = False
        self._waiting = 0
        self.active: dict[str, ActiveRun] = {}

    def begin(self, row: RunRow) -> ActiveRun:
        """Take a run up, at once: from here on it can be stopped. `execute` has to follow."""
        context = RUN_CONTEXT.validate_json(row.context)
        active = ActiveRun(row, context, texts_for(context.locale), self._clock.monotonic())
        if self._suspending:
            active.stop_reason = StopReason.SUSPENDED
        elif row.stop is not None:  # an earlier process was to end it
            active.stop_reason = StopReason(row.stop)
        self.active[row.run_id] = active
        self._delivery.expect(row.reply_key, row.address, row.reply_to)
        return active

    async def present(self, active: ActiveRun) -> Reply:
        """Show that the run begins, before anything that waits behind it shows itself."""
        row = active.row
        reply = await self._store.until_available(lambda: self._delivery.open(row.reply_key, row.address, row.reply_to))
        active.reply = reply
        if active.stop_reason is None:
            reply.show(active.view.draft(active.texts))
        return reply

    async def execute(self, active: ActiveRun) -> None:
        """Work on a run until it ended or the process stops. Raises nothing that a run can cause."""
        try:
            ending = await self._supervise(active)
            if ending is not None:
                await self._end(active, ending)
        finally:
            active.bridge.close()
            del self.active[active.row.run_id]

    def stop(self, run_id: str, reason: StopReason) -> bool:
        """Stop a run; False when it is not being worked on, or is already ending."""
        active = self.active.get(run_id)
        if active is None or active.stop_reason is not None:
            return False
        if active.worker is not None:
            if active.worker.done():
                return False
            active.worker.cancel()
        active.stop_reason = reason
        return True

    def stopping(self, run_id: str) -> bool:
        """Whether it was stopped and is about to end."""
        active = self.active.get(run_id)
        return active is not None and active.stop_reason is not None

    @property
    def waiting(self) -> int:
        """Runs that were begun and wait for one of the slots."""
        return self._waiting

    async def rewind(self, row: RunRow) -> None:
        """Make the agent forget an ended run, the newest of its thread. Raises LookupError when that is not kept."""
        if row.attempt:  # before its first start there was nothing to remember
            await (await self._harness()).rewind(row.thread_id, row.base_checkpoint_id)

    def suspend(self) -> None:
        """A planned stop: every run pauses where it is and goes on at the next start."""
        self._suspending = True
        for run_id in list(self.active):
            self.stop(run_id, StopReason.SUSPENDED)

    async def drop(self, row: RunRow, text: str) -> None:
        """End a run that never started, with an honest sentence."""
        message = OutboundMessage(text=text, final=True)
        await self._commit_end(row, Ending(RunState.INTERRUPTED, message, runs.NEVER_WANTED), EventRecord())

    async def _supervise(self, active: ActiveRun) -> Ending | None:
        """The run's ending, or None when it was suspended."""
        if active.stop_reason is None:
            active.worker = asyncio.create_task(self._work(active), name=f"run:{active.row.run_id}")
            try:
                await asyncio.wait({active.worker})
            finally:
                active.worker.cancel()
            if not active.worker.cancelled():
                return active.worker.result()
        match active.stop_reason:
            case None:
                return endings.broken("cancelled by itself", active.context.model, active.view, active.texts)
            case StopReason.SUSPENDED:
                if active.reply is not None:
                    await self._pause(active, active.reply)
                return None
            case reason:
                forgotten = not reason.rewinds or await self._forget(active.row)
                return endings.stopped(reason, active.view, active.texts, forgotten=forgotten)

    async def _forget(self, row: RunRow) -> bool:
        """rewind, whose failure is an ending that says so."""
        try:
            await self.rewind(row)
        except Exception:
            # Whatever it is, the run has to end, and its ending tells.
            log.exception("run %s could not be taken back", row.run_id)
            return False
        return True

    async def _work(self, active: ActiveRun) -> Ending:
        reply = active.reply or await self.present(active)
        showing = asyncio.create_task(self._show(active, reply), name=f"show:{active.row.run_id}")
        try:
            await self._take_slot(active, reply)
            try:
                return await self._within_limit(active, await self._harness())
            finally:
                self._slots.release()
        finally:
            showing.cancel()

    async def _take_slot(self, active: ActiveRun, reply: Reply) -> None:
        """Wait for a slot, saying so when there is none."""
        if not self._slots.locked():
            await self._slots.acquire()
            return
        active.view.status = active.texts.no_slot.format(limit=self._limits.concurrent)
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        active.view.status = ""
        reply.show(active.view.draft(active.texts))

    async def _show(self, active: ActiveRun, reply: Reply) -> None:
        """Render is the first reader of the run's stream; what it missed does not matter, it shows the state."""
        reply.show(active.view.draft(active.texts))
        async for _ in active.bridge.read():
            reply.show(active.view.draft(active.texts))

    async def _within_limit(self, active: ActiveRun, harness: Harness) -> Ending:
        try:
            async with asyncio.timeout(self._limits.seconds) as limit:
                return await self._drive(active, harness)
        except StoreError:
            raise  # another process has the database, or it is closed: the run is not ours to end
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                return endings.timed_out(self._limits.seconds, active.view, active.texts)
            # A defect, of whatever kind, must not leave a conversation without an ending.
            log.exception("run %s broke", active.row.run_id)
            return endings.broken(type(error).__name__, active.context.model, active.view, active.texts)

    async def _drive(self, active: ActiveRun, harness: Harness) -> Ending:
        head = await harness.head(active.row.thread_id)
        now = self._clock.now()
        active.row = await self._store.write(lambda tx: runs.start(tx, active.row.run_id, head, now, self._store.epoch))
        if active.row.attempt > ATTEMPTS:
            self._on_dead_letter(active.row)
            return endings.gave_up(ATTEMPTS, active.view, active.texts)
        seq = await self._store.read(lambda tx: run_events.last_seq(tx, active.row.run_id))
        run_input = RUN_INPUT.validate_json(active.row.input)
        last: AnyRunEvent | None = None
        events = harness.run(active.context, run_input, attempt=active.row.attempt, next_seq=(seq or 0) + 1)
        async with aclosing(events):
            async for event in events:
                active.view.apply(event, active.texts)
                active.record.add(event)
                active.bridge.publish(event)
                last = event
        files = last.files if isinstance(last, Finished) else ()
        outgoing = self._presented.outgoing(files, active.row.address.account, active.texts)
        active.view.notices += outgoing.sentences
        ending = endings.told(active.row.run_id, active.context.model, last, active.view, active.texts)
        return replace(ending, message=replace(ending.message, files=outgoing.files))

    async def _pause(self, active: ActiveRun, reply: Reply) -> None:
        reply.show(OutboundMessage(text=active.view.text, status=active.texts.paused))
        reply.suspend()
        active.record.flush()
        record, now = active.record, self._clock.now()

        def unit(tx: Connection) -> None:
            runs.suspend(tx, active.row.run_id)
            record.commit(tx, active.row, now)

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
        now, message = self._clock.now(), ending.message
        if ending.retry:
            texts = texts_for(RUN_CONTEXT.validate_json(row.context).locale)
            message = replace(message, buttons=retry_buttons(row, texts))

        def unit(tx: Connection) -> None:
            if not runs.end(tx, row.run_id, ending.state, now, ending.detail):
                return  # tried again after a lost connection: it was committed the first time
            record.commit(tx, row, now)
            self._delivery.finalize(tx, row.reply_key, row.address, row.reply_to, message)
            if ending.retry:
                prompts.ensure(tx, [retry_question(row, now)])

        await self._store.write(unit)
        reply = self._delivery.finished(row.reply_key, row.address, row.reply_to, message)
        if message.files:
            self._presented.clear_after(row.run_id, reply)
