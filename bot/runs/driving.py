"""What happens in a run: voice messages are transcribed, a suspect is held back, then the agent works until it ends or
waits for a person."""

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
"""Deaths after which a run still goes on at once: a single one is what any process may meet with."""
MOST_DEATHS = 3
"""Deaths against a run that make it a dead letter."""
QUIET_SECONDS = 60.0
"""That a process has to live before it tries a suspect, for each death beyond the free one; and after which one that is
tried no longer keeps the next one waiting."""
CLOSING_SECONDS = 1.0
"""Of a run's time that its end is left, so that a recording which takes too long does not cost the answer."""
FIRST_SECONDS = 1.0
"""The longest that a request waits for the words that were said before it."""


class Transcriber:
    """Transcribes a run's voice messages before the agent begins, and keeps their words with the run.

    So a restart finds the words in the run's row and no service is paid twice, and what could not be transcribed is
    told once, with the answer. hearing: gives the words of each voice message. budgets: nothing is transcribed for a
    person who has used theirs up.
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
        """What a person reads where voice messages are not transcribed."""
        return texts.voice_problem["off"]

    async def listen(self, active: ActiveRun) -> None:
        """Put the words of its voice messages into the run's input; the answer tells what was not understood."""
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
        """One for each reason."""
        problems = [file.voice.problem for file in run_input.files if file.voice is not None and file.voice.problem]
        for problem in dict.fromkeys(problems):
            sentence = texts.voice_problem.get(problem, texts.voice_problem["failed"])  # of another version
            yield sentence.format(limit=self._hearing.limit(problem))


def _is_new(file: InputFile) -> bool:
    """A voice message that was not tried yet."""
    return file.voice is not None and not file.voice.listened


class Suspects:
    """Holds suspected runs back: those that were at work at two deaths of the process are tried one at a time, so that
    one which kills it is found and given up, and a kill from outside is not blamed on it.

    Made when the process begins to live, from which its quiet time counts.
    """

    def __init__(self, store: RetryingStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._began = clock.monotonic()
        self._trial = asyncio.Lock()

    async def is_poison(self, row: RunRow) -> bool:
        """Whether a run is to be given up, as far as is known now: others of the same deaths may have lived since it
        was asked last."""
        if len(row.deaths) < MOST_DEATHS:
            return False
        return await self._store.read(lambda tx: runs.deaths_against(tx, row)) >= MOST_DEATHS

    @asynccontextmanager
    async def turn(self, row: RunRow, held: Callable[[], None]) -> AsyncIterator[None]:
        """Surrounds the work on a run: at once, unless it is suspected; then `held` is called and it waits. One that is
        poison need not wait."""
        if len(row.deaths) <= UNSUSPECTED or await self.is_poison(row):
            yield
            return
        held()
        quiet = QUIET_SECONDS * (len(row.deaths) - UNSUSPECTED)
        log.warning(
            "run %s was in progress at %d crashes: it is tried again after %.0f s", row.run_id, len(row.deaths), quiet
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

    harness: as soon as it is built; there may be another later. seconds: that a run may take altogether, without those
    that it waits, as configured now. on_start: what else is written with a run's start, and the number of its next
    event.
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
        """Start the run, or go on with it, as soon as there is an agent. None: it waits for a person, and that is
        recorded and asked."""
        await self._harness()  # waiting for it is no time of the run's, and its failure is no defect of the run's
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            until = began + max(0.0, self._seconds() - active.worked)
            async with asyncio.timeout_at(until) as limit:
                return await self._work(active, until)
        except StoreError:
            raise  # another process has the database, or it is closed: then this one may not end the run
        except Exception as error:  # any defect: it must not leave a conversation without an ending
            if isinstance(error, TimeoutError) and limit.expired():
                return endings.timed_out(self._seconds(), active.view, active.texts)
            return _broken(active, error)
        finally:
            active.worked += loop.time() - began

    async def decided(self, active: ActiveRun) -> Ending | None:
        """Wait until all that the run asked for is decided."""
        try:
            await self._approvals.wait(active)
        except StoreError:
            raise
        except Exception as error:  # as above
            return _broken(active, error)
        return None

    async def _work(self, active: ActiveRun, until: float) -> Ending | None:
        """until: when its time is over, by the loop's clock."""
        if (
            active.row.attempt == 0
            and (refused := await self._budgets.refusal(payer_of(active.row), active.texts)) is not None
        ):
            return endings.refused(*refused)
        head = await (await self._harness()).head(active.row.thread_id)
        seq = await self._start(active, head)
        active.context = active.row.context  # its chat may have moved
        message_id, read = active.view.unfinished
        if read:  # the agent may tell the same message once more
            reset = TextReset(run_id=active.row.run_id, seq=seq, message_id=message_id)
            active.record.add(reset)
            active.tell(reset)
            seq += 1
        run_input = active.row.input
        last: AnyRunEvent | None = None
        asked: list[ApprovalRequested] = []
        harness = await self._harness()  # the one of now: what one is given back is in use from its first event on
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
        """Let what was said before a request stand above it, where that can be shown soon."""
        reply = active.reply
        if reply is None or reply.visible or not active.view.visible_text.strip():
            return
        await until_first(reply.hurry(), self._clock.sleep(FIRST_SECONDS))

    async def _start(self, active: ActiveRun, head: Head) -> int:
        """Mark the run as running; returns the number of its next event. What begins asks the model first: that call is
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
        """Write what people are about to read, so that the process after a crash does not take it back; whether it is
        written. Tried once: a full disk must not stop the text, and the run meets it at its own next write."""
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
    """The ending of a run in which a defect of the gateway was met."""
    log.error("run %s broke", active.row.run_id, exc_info=error)
    return endings.broken(type(error).__name__, active.context.model, active.view, active.texts)
