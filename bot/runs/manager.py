"""RunManager executes runs: start or resume, stream into the reply, end in one transaction with the answer.

Runs are opened by the conversation's actor (bot/conversations/), which also decides what runs next.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from bot.runs import endings
from bot.runs.active import ActiveRun, ActiveRuns
from bot.runs.approvals import ApprovalService
from bot.runs.driving import Driver, Suspects, Transcriber
from bot.runs.endings import Ending
from bot.runs.following import Following
from bot.runs.render import RunView, below
from bot.store import prompts, run_events, runs, worker_runs
from bot.store.errors import StoreError
from bot.store.rows import RunState, StopReason
from bot.texts import DEFAULT, texts_for
from bot.usage.meter import EventRecord
from channels.message import OutboundMessage
from harness.context import Unfinished
from harness.events import RUN_EVENT
from harness.files.slots import FairSlots

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sqlalchemy import Connection

    from bot.delivery import Delivery, Reply
    from bot.delivery.presented import Presented
    from bot.files.sandboxes import ThreadOwners
    from bot.runs.active import Hooks, RunLimits
    from bot.runs.approvals import Change
    from bot.runs.endings import Aftermath
    from bot.runs.speaking import SpokenAnswers
    from bot.store.retrying import RetryingStore
    from bot.store.rows import RunRow
    from bot.usage.budgets import Payer
    from bot.usage.report import Spending
    from bot.voice.speech_to_text import SpeechToText
    from harness.context import ResearchFiles, ResearchView
    from harness.ports import Harness
    from harness.research.record import Research

log = logging.getLogger(__name__)


ANYONE = ""


class RunManager:
    """Executes the runs of all conversations.

    harness: awaited by each run, so that channels can listen before it is imported.
    owners: learns the owner of each run's thread.
    """

    def __init__(
        self,
        *,
        store: RetryingStore,
        delivery: Delivery,
        harness: Callable[[], Awaitable[Harness]],
        limits: RunLimits,
        presented: Presented,
        spending: Spending,
        hearing: SpeechToText,
        speaking: SpokenAnswers,
        owners: ThreadOwners,
        hooks: Hooks,
    ) -> None:
        clock, budgets = store.clock, spending.budgets
        self._store = store
        self._delivery = delivery
        self._harness = harness
        self._clock = clock
        self._limits = limits
        self._presented = presented
        self._hooks = hooks
        self._owners = owners
        self._meter = spending.meter
        # All runs have the same key, so that they are served in the order of their arrival.
        self._slots = FairSlots(limits.concurrent, share=limits.concurrent)
        self._suspects = Suspects(store, clock)
        self._suspending = False
        self.active = ActiveRuns()
        self.following = Following()
        self.budgets = budgets
        self.transcriber = Transcriber(store, hearing, budgets)
        self.approvals = ApprovalService(store, delivery, clock, self.active)
        self._driver = Driver(
            store,
            harness,
            clock,
            self._seconds,
            presented,
            budgets,
            self.approvals,
            speaking,
            self.active.counts,
            hooks.on_start,
        )

    def limit(self, limits: RunLimits) -> None:
        """Change the limits. Working runs continue, even if there are more of them than the new limit."""
        self._limits = limits
        self._slots.resize(limits.concurrent, share=limits.concurrent)

    def _seconds(self) -> float:
        return self._limits.seconds

    # Runs left by an earlier process.

    async def left(self) -> dict[str, tuple[RunRow, ...]]:
        """The runs to resume, by conversation and in their order. What cannot be resumed is closed with an honest
        sentence: runs that another version stored, and drafts that no longer belong to a run."""
        unended = await self._with_deaths()
        await self._close_lost_drafts({row.reply_key for row in unended})
        left: dict[str, list[RunRow]] = {}
        for row in unended:
            if row.is_readable:
                left.setdefault(row.conversation, []).append(row)
            else:
                log.error("run %s was stored by another version and cannot be read; it is dropped", row.run_id)
                await self.drop(row, texts_for(DEFAULT).lost_draft)
        if left:
            log.info("resuming %d run(s) of the last process", sum(map(len, left.values())))
        return {conversation: tuple(sorted(rows, key=runs.in_turn)) for conversation, rows in left.items()}

    async def _with_deaths(self) -> list[RunRow]:
        """All runs that have not ended. The death of the last process is recorded with those that were working in it
        at that time."""
        found, elsewhere = await self._store.read(lambda tx: (runs.unended(tx), worker_runs.ordered(tx)))
        died = [row for row in found if runs.died_at_work(row) and row.run_id not in elsewhere]
        if not died:
            return found
        log.warning("the last process died while %d run(s) were in progress", len(died))
        recorded = await self._store.write(lambda tx: {row.run_id: row for row in runs.record_deaths(tx, died)})
        return [recorded.get(row.run_id, row) for row in found]

    async def _close_lost_drafts(self, wanted: set[str]) -> None:
        for draft in await self._delivery.undelivered_drafts():
            if draft.reply_key not in wanted:
                message = OutboundMessage(text=texts_for(DEFAULT).lost_draft, final=True)
                await self._delivery.say(draft.reply_key, draft.address, draft.reply_to, message)

    # Execution.

    def begin(
        self, row: RunRow, *, asking_changed: Callable[[], None], take_in: Callable[[ActiveRun], Awaitable[None]]
    ) -> ActiveRun:
        """Activate a run at once: from here on it can be stopped. `execute` has to follow.

        asking_changed, take_in: see `ActiveRun`.
        """
        context = row.context
        self._owners.learn(context.thread_id, context.owner)
        texts, record = texts_for(context.locale), self._meter.open(row)
        active = ActiveRun(
            row=row,
            context=context,
            texts=texts,
            clock=self._clock,
            began=self._clock.monotonic(),
            record=record,
            asking_changed=asking_changed,
            take_in=take_in,
            view=RunView(intermediate=context.intermediate, progress=context.progress, seen=row.started_at is not None),
            stream=self.following.begin(row),
        )
        if self._suspending:
            active.stop_reason = StopReason.SUSPENDED
        elif row.stop is not None:  # an earlier process was asked to end it
            active.stop_reason = StopReason(row.stop)
        self.active[row.run_id] = active
        self._delivery.expect(row.reply_key, row.address, row.reply_to)
        return active

    async def present(self, active: ActiveRun) -> None:
        """Show that the run begins, before the messages queued behind it are shown."""
        row = active.row
        # Opened by this process and never queued: nothing was sent under its key yet.
        new = row.attempt == 0 and row.place == 0 and row.epoch == self._store.epoch
        reply = await self._store.until_available(
            lambda: self._delivery.open(row.reply_key, row.address, row.reply_to, new=new)
        )
        active.reply, reply.previews = reply, not row.context.heading
        active.intent = self._delivery.intent(reply) if new else None
        reply.keep = partial(self._driver.keep_text, active)
        if row.started_at is not None:
            await self._recall_text(active)
        texts = active.texts
        reply.at_work, reply.goes_on, reply.takes_a_while = texts.working, texts.goes_on_below, texts.takes_a_while
        if active.stop_reason is None:
            active.show()

    async def _recall_text(self, active: ActiveRun) -> None:
        """Restore in the view what people saw of the answer before this start, as far as it was stored."""
        events = await self._store.read(lambda tx: run_events.read(tx, active.row.run_id))
        active.view.go_on_from((RUN_EVENT.validate_json(body) for _, _, body in events), active.texts)

    async def execute(self, active: ActiveRun) -> None:
        """Work on a run until it ends or the process stops. Raises nothing that a run can cause."""
        try:
            ending = await self._supervise(active)
            if ending is not None:
                await self._keep_unfinished(active, ending)
                await self._end(active, ending)
        finally:
            del self.active[active.row.run_id]
            self.following.end(active.row)
            self._meter.close(active.row.run_id)

    def stop(self, run_id: str, reason: StopReason) -> bool:
        """Stop a run; False when it is not being worked on, or is already ending."""
        active = self.active.get(run_id)
        if active is None or active.stop_reason is not None:
            return False
        if active.worker is not None and active.held is None:
            if active.worker.done():
                return False
            active.worker.cancel()
        active.stop_reason = reason
        return True

    def unseen(self, run_id: str, seconds: float) -> bool:
        """Whether the run began less than `seconds` ago and could start over unseen."""
        active = self.active.get(run_id)
        return active is not None and active.unseen and self._clock.monotonic() - active.began < seconds

    async def begin_again(self, run_id: str, change: Callable[[RunRow], Awaitable[RunRow]]) -> RunRow | None:
        """Stop the work on a run, make the agent forget it, and start it again as `change` has stored it. Returns None
        if it ended first, or cannot be forgotten and continues as it was.

        After each step a new process could resume the run: as it was, then from its beginning, then changed.
        """
        active = self.active.get(run_id)
        if active is None or not active.unseen:
            return None
        active.held = held = asyncio.Event()
        try:
            if active.worker is not None:
                active.worker.cancel()
                await asyncio.wait({active.worker})
                if not active.worker.cancelled():
                    active.held = None
                    return None
            await self._know_start(active)
            forgotten = await self._forget(active.row)
            await self._put_aside(active)
            if forgotten:
                active.row = await change(active.row)
            return active.row if forgotten else None
        finally:
            held.set()

    def hears(self, run_id: str) -> bool:
        """Whether the run can take in a new message: it is neither ending nor waiting for a person."""
        active = self.active.get(run_id)
        return active is not None and active.stop_reason is None and not active.asking

    def stopping(self, run_id: str) -> bool:
        """Whether the run is about to end, or has ended without its conversation having been notified yet."""
        active = self.active.get(run_id)
        return active is None or active.stop_reason is not None

    @property
    def waiting(self) -> int:
        """Number of begun runs that wait for a slot."""
        return self._slots.waiting

    async def rewind(self, row: RunRow) -> None:
        """Make the agent forget an ended run, the newest of its thread. Raises LookupError if it cannot go back."""
        if row.attempt:  # before its first start the agent had nothing to remember
            await (await self._harness()).rewind(row.thread_id, row.base_checkpoint_id)

    async def compact(self, payer: Payer, model: str) -> int:
        """Summarize the older messages of the payer's thread, which must have no active run, by this model; returns the
        number of messages replaced. Raises HarnessError, and ModelFailure when nothing has changed."""
        harness = await self._harness()
        thread_id = payer.thread_id
        before = len(await harness.history(thread_id))
        spent = await (await self._harness()).compact(thread_id, model)
        if spent is not None:
            await self._meter.charge(spent, payer)
        return before - len(await harness.history(thread_id))

    async def research(self, thread_id: str) -> ResearchView | None:
        """The thread's newest research; None where there was none."""
        return await (await self._harness()).research(thread_id)

    async def research_record(self, thread_id: str) -> Research | None:
        """The full record of the thread's newest research; None where there was none."""
        return await (await self._harness()).research_record(thread_id)

    async def research_files(self, thread_id: str) -> ResearchFiles | None:
        """The thread's newest research as files for a person to keep; None if there was no plan."""
        return await (await self._harness()).research_files(thread_id)

    @property
    def suspending(self) -> bool:
        """Whether the process is about to stop."""
        return self._suspending

    def suspend(self) -> None:
        """Pause every run where it is for a planned stop; it continues at the next start."""
        self._suspending = True
        for run_id in list(self.active):
            self.stop(run_id, StopReason.SUSPENDED)

    async def drop(self, row: RunRow, text: str) -> None:
        """End a run that never started, with an honest sentence."""
        message = OutboundMessage(text=text, final=True)
        await self._commit_end(row, Ending(RunState.INTERRUPTED, message, runs.NEVER_WANTED), EventRecord())

    async def _supervise(self, active: ActiveRun) -> Ending | None:
        """The run's ending, or None when it was suspended."""
        while await self._may_work(active):
            active.worker = asyncio.create_task(self._work(active), name=f"run:{active.row.run_id}")
            try:
                await asyncio.wait({active.worker})
            finally:
                active.worker.cancel()
            if not active.worker.cancelled():
                return active.worker.result()
            if active.held is None:
                break
        match active.stop_reason:
            case None:
                return endings.broken("cancelled by itself", active.context.model, active.view, active.texts)
            case StopReason.SUSPENDED:
                if active.reply is not None:
                    await self._pause(active, active.reply)
                return None
            case reason:
                await self._know_start(active)
                forgotten = not reason.rewinds or await self._forget(active.row)
                return endings.stopped(reason, active.view, active.texts, forgotten=forgotten)

    async def _know_start(self, active: ActiveRun) -> None:
        """Reload a run that was stopped while its start was being written, to see whether it has started."""
        if active.starting:
            # A write, so that it is ordered behind that start if it is still in progress.
            started = await self._store.write(partial(runs.load, run_id=active.row.run_id))
            active.row, active.starting = started or active.row, False

    async def _keep_unfinished(self, active: ActiveRun, ending: Ending) -> None:
        """Keep in the thread what people have seen of an unfinished answer, so that it can be continued."""
        row, (message_id, text) = active.row, active.view.unfinished
        taken_back = active.stop_reason is not None and active.stop_reason.rewinds
        if ending.state is RunState.SUCCESS or taken_back or not (row.attempt and text.strip()):
            return
        words = Unfinished(run_id=row.run_id, message_id=message_id, text=text)
        await self._tried("keep the unfinished answer", row, lambda: self._settle(row.thread_id, words))

    async def _may_work(self, active: ActiveRun) -> bool:
        """Whether to work on the run, after waiting for it to be ready to begin again."""
        while (held := active.held) is not None:
            await held.wait()
            active.held = None if active.held is held else active.held
            old = active.view
            active.view = RunView(old.intermediate, old.progress, model_calls=old.model_calls)
            active.show()
        return active.stop_reason is None

    async def _forget(self, row: RunRow) -> bool:
        """Whether `rewind` succeeded; the ending reports a failure."""
        return await self._tried("undo the turn", row, lambda: self.rewind(row))

    async def _settle(self, thread_id: str, unfinished: Unfinished) -> None:
        await (await self._harness()).settle(thread_id, unfinished)

    async def _tried(self, what: str, row: RunRow, change: Callable[[], Awaitable[None]]) -> bool:
        """Whether a change of the thread succeeded; errors of the harness do not keep the run from ending."""
        try:
            await change()
        except Exception:
            # Any error: the run has to end.
            log.exception("run %s: could not %s", row.run_id, what)
            return False
        return True

    async def _work(self, active: ActiveRun) -> Ending:
        if active.reply is None:
            await self.present(active)
        signs = asyncio.create_task(active.show_signs(), name=f"signs:{active.row.run_id}")
        try:
            await self.transcriber.listen(active)
            while True:
                ending = await self._drive(active)
                if ending is not None or (ending := await self._wait(active)) is not None:
                    return ending
        finally:
            signs.cancel()

    async def _drive(self, active: ActiveRun) -> Ending | None:
        """Let the agent work on the run in its turn, unless the run is poison; None: it waits for a person."""
        async with self._suspects.turn(active.row, lambda: active.show(active.texts.held)):
            if await self._suspects.is_poison(active.row):
                self._hooks.on_dead_letter(active.row)
                return endings.gave_up(len(active.row.deaths), active.view, active.texts)
            if not self._slots.free:
                active.show(active.texts.no_slot.format(limit=self._slots.most))
            asked = self._clock.monotonic()
            async with self._slots.slot(ANYONE):
                active.slot_wait = self._clock.monotonic() - asked
                self.active.counts.slot_waits.add(active.slot_wait)
                if active.view.status:  # the cause of the delay is gone
                    active.show("")
                return await self._driver.drive(active)

    async def _wait(self, active: ActiveRun) -> Ending | None:
        """Wait until people have decided the run's requests; returns an ending only if that failed."""
        if active.reply is not None:
            active.reply.waits_for_person = True
        active.show(active.texts.waiting_for_decision)
        if active.stream is not None:
            active.stream.enter("waiting")
        try:
            ending = await self._driver.decided(active)
        except asyncio.CancelledError:  # a stop: an external agent may be waiting in the sandbox for the decision
            (await self._harness()).abandon(active.row.run_id)
            raise
        if active.stream is not None:
            active.stream.enter("working")
        if active.reply is not None:
            active.reply.waits_for_person = False
        active.show("")
        return ending

    async def _pause(self, active: ActiveRun, reply: Reply) -> None:
        paused = OutboundMessage(text=active.view.visible_text, status=active.texts.paused)
        reply.show(below(active.context.heading, paused))
        reply.suspend()
        await self._put_aside(active)

    async def _put_aside(self, active: ActiveRun) -> None:
        """Record that the run is suspended, with its events so far: its next start is not a new attempt."""
        active.record.flush()
        record, now = active.record.taken(), self._clock.now()

        def unit(tx: Connection) -> None:
            runs.suspend(tx, active.row.run_id)
            record.commit(tx, active.row, now)

        await self._store.write(unit)

    async def _end(self, active: ActiveRun, ending: Ending) -> None:
        active.record.flush()
        endings.log_end(active, ending)
        ending = replace(ending, waits=active.waits)
        try:
            aftermaths = [ended(active.row, ending, active.view.text) for ended in self._hooks.on_end]
            await self._commit_end(active.row, ending, active.record, aftermaths)
        except StoreError:
            raise
        except Exception:
            # A defect in its events must not cost the answer, nor leave the row running, which blocks its chat.
            log.exception("the events of run %s could not be recorded", active.row.run_id)
            await self._commit_end(active.row, ending, EventRecord())

    async def _commit_end(
        self, row: RunRow, ending: Ending, record: EventRecord, aftermaths: Sequence[Aftermath] = ()
    ) -> None:
        now, asks = self._clock.now(), endings.asks_of(ending, row)
        message = below(row.context.heading, replace(ending.message, buttons=asks.buttons))
        changes: list[Change] = []

        def unit(tx: Connection) -> None:
            changes.clear()
            if not runs.end(tx, row.run_id, ending.state, now, ending.detail, ending.waits):
                return  # retried after a lost connection: it was committed the first time
            record.commit(tx, row, now)
            self._delivery.finalize(tx, row.reply_key, row.address, row.reply_to, message)
            prompts.ensure(tx, asks.prompts(now))
            changes.extend(self.approvals.stop(tx, row, now))
            for aftermath in aftermaths:
                aftermath.unit(tx)

        await self._store.write(unit)
        self.active.counts.endings[row.address.account, str(ending.state)] += 1
        for aftermath in aftermaths:
            aftermath.committed()
        self.approvals.show(changes)
        reply = self._delivery.finished(row.reply_key, row.address, row.reply_to, message, awaited=ending.awaited)
        if message.files:
            self._presented.clear_after(row.run_id, reply)
