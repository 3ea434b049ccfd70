"""Driver: lets the agent work on a run within its time, until it ended or waits for a person. For manager.py."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from bot.runs import endings
from bot.store import run_events, runs
from bot.store.errors import StoreError
from bot.usage.budgets import payer_of
from harness.context import RUN_CONTEXT, RUN_INPUT
from harness.events import ApprovalRequested, Finished, TextReset

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from bot.delivery.presented import Presented
    from bot.runs.active import ActiveRun
    from bot.runs.approvals import ApprovalDesk
    from bot.runs.endings import Ending
    from bot.store.retrying import PatientStore
    from bot.usage.budgets import Budgets
    from channels.base import Clock
    from harness.ports import AnyRunEvent, Harness

log = logging.getLogger(__name__)


class Driver:
    """harness: as soon as it is built; there may be another later. seconds: that a run may take altogether, without
    those that it waits; those of now."""

    def __init__(
        self,
        store: PatientStore,
        harness: Callable[[], Awaitable[Harness]],
        clock: Clock,
        seconds: Callable[[], float],
        presented: Presented,
        budgets: Budgets,
        approvals: ApprovalDesk,
    ) -> None:
        self._store = store
        self._harness = harness
        self._clock = clock
        self._seconds = seconds
        self._presented = presented
        self._budgets = budgets
        self._approvals = approvals

    async def drive(self, active: ActiveRun) -> Ending | None:
        """Start the run, or go on with it, as soon as there is an agent. None: it waits for a person, and that is
        recorded and asked."""
        await self._harness()  # waiting for it is no time of the run's, and its failure is no defect of the run's
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(max(0.0, self._seconds() - active.worked)) as limit:
                return await self._work(active)
        except StoreError:
            raise  # another process has the database, or it is closed: the run is not ours to end
        except Exception as error:  # a defect, of whatever kind, must not leave a conversation without an ending
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

    async def _work(self, active: ActiveRun) -> Ending | None:
        if (
            active.row.attempt == 0
            and (refused := await self._budgets.refusal(payer_of(active.row), active.texts)) is not None
        ):
            return endings.refused(*refused)
        head = await (await self._harness()).head(active.row.thread_id)
        now = self._clock.now()
        active.row = await self._store.write(lambda tx: runs.start(tx, active.row.run_id, head, now, self._store.epoch))
        active.context = RUN_CONTEXT.validate_json(active.row.context)  # its chat may have moved
        seq = await self._store.read(lambda tx: 1 + (run_events.last_seq(tx, active.row.run_id) or 0))
        if active.view.read_before:  # the agent may tell the same message once more
            active.record.add(TextReset(run_id=active.row.run_id, seq=seq, message_id=active.view.message_id))
            seq += 1
        run_input = RUN_INPUT.validate_json(active.row.input)
        last: AnyRunEvent | None = None
        asked: list[ApprovalRequested] = []
        harness = await self._harness()  # the one of now: what one is given back is in use from its first event on
        events = harness.run(active.context, run_input, attempt=active.row.attempt, next_seq=seq)
        async with aclosing(events):
            async for event in events:
                active.view.apply(event, active.texts)
                active.record.add(event)
                active.show()
                if active.record.due:
                    self._keep_text(active)
                last = event
                asked += [event] if isinstance(event, ApprovalRequested) else []
        if isinstance(last, ApprovalRequested):
            await self._approvals.ask(active, asked)
            active.row = replace(active.row, deaths=())  # as in the store: see runs.wait
            return None
        active.view.notices += await self._budgets.notices(active.row, last, active.texts)
        return self._ending(active, last)

    def _keep_text(self, active: ActiveRun) -> None:
        """Write what people have read so far. The run does not wait for it: a full disk must not stop the text."""
        if active.keeping is not None and not active.keeping.done():
            return
        active.record.flush()
        rows = tuple(active.record.rows)
        active.keeping = asyncio.create_task(self._write(active, rows), name=f"keep:{active.row.run_id}")

    async def _write(self, active: ActiveRun, rows: Sequence[run_events.Event]) -> None:
        with suppress(StoreError):  # the run meets it at its own next write
            await self._store.write(partial(run_events.append, run_id=active.row.run_id, events=rows))
            active.record.kept(rows)

    def _ending(self, active: ActiveRun, last: AnyRunEvent | None) -> Ending:
        files = last.files if isinstance(last, Finished) else ()
        outgoing = self._presented.outgoing(files, active.row.address.account, active.texts)
        active.view.notices += outgoing.sentences
        ending = endings.told(active.row.run_id, active.context.model, last, active.view, active.texts)
        return replace(ending, message=replace(ending.message, files=outgoing.files))


def _broken(active: ActiveRun, error: Exception) -> Ending:
    """A defect, of whatever kind, must not leave a conversation without an ending."""
    log.error("run %s broke", active.row.run_id, exc_info=error)
    return endings.broken(type(error).__name__, active.context.model, active.view, active.texts)
