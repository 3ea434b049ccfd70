"""The steps of a run: transcribe voice messages, hold back a suspect, then let the agent work until it ends or waits
for a person."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from bot.runs import endings
from bot.store import outbox, run_events, runs
from bot.store.errors import StoreError
from bot.usage.budgets import payer_of
from channels.supervision import until_first
from harness.events import ApprovalRequested, Finished, StepsEnded, TextReset

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from sqlalchemy import Connection

    from bot.delivery.presented import Presented
    from bot.runs.active import ActiveRun, RunCounts
    from bot.runs.approvals import ApprovalService
    from bot.runs.endings import Ending
    from bot.runs.speaking import SpokenAnswers
    from bot.store.retrying import RetryingStore
    from bot.store.rows import RunRow
    from bot.texts.catalogue import Texts
    from bot.usage.budgets import Budgets
    from bot.voice.speech_to_text import SpeechToText
    from channels.base import Clock
    from channels.message import OutboundFile
    from harness.context import InputFile, RunInput
    from harness.events import AnyRunEvent
    from harness.ports import Harness, Head

log = logging.getLogger(__name__)

UNSUSPECTED = 1
"""Deaths after which a run still resumes at once: a single one can happen to any process."""
MOST_DEATHS = 3
"""Deaths against a run that make it a dead letter."""
QUIET_SECONDS = 60.0
"""Seconds that a process must live before it tries a suspect, for each death beyond UNSUSPECTED; also the time after
which a suspect on trial no longer keeps the next one waiting."""
CLOSING_SECONDS = 1.0
"""Seconds of a run's time that are reserved for its end, so that a slow recording does not cost the answer."""
FIRST_SECONDS = 1.0
"""Most seconds that a request waits for the text before it to be shown."""


class Transcriber:
    """Transcribes a run's voice messages before the agent begins, and stores their text with the run.

    So a restart finds the text in the run's row and no service is paid twice, and failed transcriptions are reported
    once, with the answer. hearing: transcribes each voice message. budgets: nothing is transcribed for a person whose
    budget is used up.
    """

    def __init__(self, store: RetryingStore, hearing: SpeechToText, budgets: Budgets) -> None:
        self._store = store
        self._hearing = hearing
        self._budgets = budgets

    @property
    def works(self) -> bool:
        """Whether voice messages are transcribed here."""
        return self._hearing.works

    def refusal(self, texts: Texts) -> str:
        """The reply where voice messages are not transcribed."""
        return texts.voice_problem["off"]

    async def listen(self, active: ActiveRun) -> None:
        """Put the text of its voice messages into the run's input; failures are reported below the answer."""
        run_input = active.row.input
        if any(_is_new(file) for file in run_input.files):
            if await self._budgets.refusal(payer_of(active.row), active.texts) is not None:
                return  # the run is about to be refused
            run_input = await self._heard(active, run_input)
        active.view.notices += self._sentences(run_input, active.texts)

    async def _heard(self, active: ActiveRun, run_input: RunInput) -> RunInput:
        if self._hearing.works:
            active.show(active.texts.listening)
        row = active.row
        async with asyncio.TaskGroup() as listening:
            tasks = [listening.create_task(self._file(row, file)) for file in run_input.files]
        run_input = replace(run_input, files=tuple(task.result() for task in tasks))
        await self._store.write(lambda tx: runs.set_input(tx, row.run_id, run_input))
        active.row = replace(row, input=run_input)
        active.show("")
        return run_input

    async def _file(self, row: RunRow, file: InputFile) -> InputFile:
        return await self._hearing.hear(row.thread_id, file, row.speaker) if _is_new(file) else file

    def _sentences(self, run_input: RunInput, texts: Texts) -> Iterator[str]:
        """One sentence for each reason of a failure."""
        problems = [file.voice.problem for file in run_input.files if file.voice is not None and file.voice.problem]
        for problem in dict.fromkeys(problems):
            sentence = texts.voice_problem.get(problem, texts.voice_problem["failed"])  # of another version
            yield sentence.format(limit=self._hearing.limit(problem))


def _is_new(file: InputFile) -> bool:
    """Whether it is a voice message whose transcription was not tried yet."""
    return file.voice is not None and not file.voice.listened


class Suspects:
    """Holds suspected runs back: runs that were working at two deaths of the process are tried one at a time, so that
    one that kills it is identified and abandoned, and a kill from outside is not blamed on it.

    Create it when the process starts: the quiet time counts from then.
    """

    def __init__(self, store: RetryingStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._began = clock.monotonic()
        self._trial = asyncio.Lock()

    async def is_poison(self, row: RunRow) -> bool:
        """Whether a run is to be abandoned, as far as is known now: other runs of the same deaths may have survived
        since the last check."""
        if len(row.deaths) < MOST_DEATHS:
            return False
        return await self._store.read(lambda tx: runs.deaths_against(tx, row)) >= MOST_DEATHS

    @asynccontextmanager
    async def turn(self, row: RunRow, held: Callable[[], None]) -> AsyncIterator[None]:
        """Surround the work on a run: it starts at once unless the run is suspected; then `held` is called and it
        waits. A poison run does not wait."""
        if len(row.deaths) <= UNSUSPECTED or await self.is_poison(row):
            yield
            return
        held()
        quiet = QUIET_SECONDS * (len(row.deaths) - UNSUSPECTED)
        log.warning(
            "run %s was in progress at %d crashes: it is retried after %.0f s", row.run_id, len(row.deaths), quiet
        )
        await self._clock.sleep(self._began + quiet - self._clock.monotonic())
        await self._trial.acquire()
        over = asyncio.create_task(self._clock.sleep(QUIET_SECONDS), name=f"trial:{row.run_id}")
        over.add_done_callback(lambda _: self._trial.release())
        try:
            yield
        finally:
            over.cancel()


class Driver:
    """Lets the agent work on a run within its time.

    harness: returns the current one as soon as it is built; it may be replaced later. seconds: the currently configured
    total time of a run, not counting the time it waits. on_start: runs in the transaction of a run's start, given the
    number of its next event.
    """

    def __init__(
        self,
        store: RetryingStore,
        harness: Callable[[], Awaitable[Harness]],
        clock: Clock,
        seconds: Callable[[], float],
        presented: Presented,
        budgets: Budgets,
        approvals: ApprovalService,
        speaking: SpokenAnswers,
        counts: RunCounts,
        on_start: Callable[[Connection, RunRow, int], None] | None,
    ) -> None:
        self._store = store
        self._harness = harness
        self._counts = counts
        self._clock = clock
        self._seconds = seconds
        self._presented = presented
        self._budgets = budgets
        self._approvals = approvals
        self._speaking = speaking
        self._on_start = on_start

    async def drive(self, active: ActiveRun) -> Ending | None:
        """Start or continue the run as soon as the harness is available. None: it waits for a person; the request is
        recorded and sent."""
        await self._harness()  # this wait does not count as the run's time, nor its failure as the run's defect
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            until = began + max(0.0, self._seconds() - active.worked)
            async with asyncio.timeout_at(until) as limit:
                return await self._work(active, until)
        except StoreError:
            raise  # another process has the database, or it is closed: this process must not end the run
        except Exception as error:  # any defect: it must not leave a conversation without an ending
            if isinstance(error, TimeoutError) and limit.expired():
                return endings.timed_out(self._seconds(), active.view, active.texts)
            return _broken(active, error)
        finally:
            active.worked += loop.time() - began

    async def decided(self, active: ActiveRun) -> Ending | None:
        """Wait until all requests of the run are decided."""
        try:
            await self._approvals.wait(active)
        except StoreError:
            raise
        except Exception as error:  # as above
            return _broken(active, error)
        return None

    async def _work(self, active: ActiveRun, until: float) -> Ending | None:
        """Run the agent and record its events. until: the end of the run's time, on the loop's clock."""
        if (
            active.row.attempt == 0
            and (refused := await self._budgets.refusal(payer_of(active.row), active.texts)) is not None
        ):
            return endings.refused(*refused)
        head = await (await self._harness()).head(active.row.thread_id)
        seq = await self._start(active, head)
        active.context = active.row.context  # its chat may have moved
        message_id, read = active.view.unfinished
        if read:  # the agent may send the same message again
            reset = TextReset(run_id=active.row.run_id, seq=seq, message_id=message_id)
            active.record.add(reset)
            active.tell(reset)
            seq += 1
        run_input = active.row.input
        last: AnyRunEvent | None = None
        asked: list[ApprovalRequested] = []
        harness = await self._harness()  # the current one, which counts as in use from its first event on
        events = harness.run(active.context, run_input, attempt=active.row.attempt, next_seq=seq, head=head)
        async with aclosing(events):
            async for event in events:
                active.view.apply(event, active.texts)
                active.record.add(event)
                self._counts.saw(active, event)
                active.tell(event)
                active.show()
                if isinstance(event, StepsEnded) and active.row.deaths:
                    await self._store.write(lambda tx: runs.forgive(tx, active.row.run_id))
                    active.row = replace(active.row, deaths=())
                last = event
                asked += [event] if isinstance(event, ApprovalRequested) else []
        if isinstance(last, ApprovalRequested):
            await self._say_first(active)
            await self._approvals.ask(active, asked)
            active.row = replace(active.row, deaths=())  # as in the store: see runs.wait
            return None
        active.view.notices += await self._budgets.notices(active.row, last, active.texts)
        return await self._ending(active, last, until - CLOSING_SECONDS)

    async def _say_first(self, active: ActiveRun) -> None:
        """Let the text before a request appear above it, if it can be shown soon."""
        reply = active.reply
        if reply is None or reply.visible or not active.view.visible_text.strip():
            return
        await until_first(reply.hurry(), self._clock.sleep(FIRST_SECONDS))

    async def _start(self, active: ActiveRun, head: Head) -> int:
        """Mark the run as running; returns the number of its next event. A new run calls the model first: that call is
        counted in the same commit."""
        row, record = active.row, active.record
        now, is_new = self._clock.now(), row.attempt == 0
        calls = int(is_new and row.input.research is None)
        intent = active.intent if is_new else None

        def unit(tx: Connection) -> tuple[RunRow, int]:
            started = runs.start(tx, row.run_id, head.id, now, self._store.epoch, calls=calls)
            if intent is not None:
                outbox.intend(tx, [intent])
            seq = 1 if is_new else 1 + (run_events.last_seq(tx, row.run_id) or 0)
            if self._on_start is not None:
                self._on_start(tx, started, seq)
            return started, seq

        active.starting = True
        active.row, seq = await self._store.write(unit)
        active.starting = False
        if intent is not None and active.reply is not None:
            active.reply.intended_early()
        record.counted = active.row.model_calls if calls else 0
        return seq

    async def keep_text(self, active: ActiveRun) -> bool:
        """Store text that people are about to see, so that it is not taken back after a crash; returns whether it was
        stored. Tried once: a full disk must not stop the text, and the run encounters it at its own next write."""
        active.record.flush()
        rows = tuple(active.record.rows)
        if not rows:
            return True
        written = await self._store.tried(partial(run_events.append, run_id=active.row.run_id, events=rows))
        if written:
            active.record.kept(rows)
        return written

    async def _ending(self, active: ActiveRun, last: AnyRunEvent | None, until: float) -> Ending:
        files = last.files if isinstance(last, Finished) else ()
        outgoing = self._presented.outgoing(files, active.row.address.account, active.texts)
        active.view.notices += outgoing.sentences
        spoken: tuple[OutboundFile, ...] = ()
        if isinstance(last, Finished) and self._speaking.wanted(active.context):
            spoken = await self._speaking.spoken(active, last.text, until)
        ending = endings.told(active.context.model, last, active.view, active.texts)
        return replace(ending, message=replace(ending.message, files=(*spoken, *outgoing.files)))


def _broken(active: ActiveRun, error: Exception) -> Ending:
    """The ending of a run that hit a defect of the gateway."""
    log.error("run %s failed", active.row.run_id, exc_info=error)
    return endings.broken(type(error).__name__, active.context.model, active.view, active.texts)
