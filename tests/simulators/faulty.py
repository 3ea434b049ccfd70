"""Applies queued faults to HTTP requests; the base of the platforms' servers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from aiohttp import web

from tests.simulators.connections import reset_connection
from tests.simulators.faults import CallFault
from tests.simulators.journal import HELD, CallJournal, CallT
from tests.simulators.signals import Signal

FaultT = TypeVar("FaultT", bound=CallFault)


class FaultyServer(Generic[CallT, FaultT]):
    """Handlers whose answers can be delayed, held, broken or replaced. released: fired to continue held calls."""

    def __init__(self, journal: CallJournal[CallT], released: Signal) -> None:
        self._journal = journal
        self._released = released

    def answer_of(self, fault: FaultT, record: CallT) -> web.Response:
        """This platform's answer for "error", "html" and "garbage"; it is noted in the record."""
        raise NotImplementedError

    async def meet(
        self, fault: FaultT | None, request: web.Request, record: CallT, apply: Callable[[], Awaitable[web.Response]]
    ) -> web.Response:
        """Apply a call by the platform's rules, before, after or instead of its fault, and finish its record."""
        if fault is None:
            answer = await apply()
            self._journal.finish(record, answer.status, "applied" if record.applied else "refused")
            return answer
        await self.before(fault, record)
        if fault.apply:
            answer = await apply()
            self._journal.note(record)
            await asyncio.sleep(fault.hang)
            if fault.hold_after:
                await self._hold(record)
            if fault.answer == "normal":
                self._journal.finish(record, answer.status, fault.name)
                return answer
        return self.broken_answer(request, fault, record)

    async def before(self, fault: FaultT, record: CallT) -> None:
        """Run the part of the fault that precedes the call."""
        await asyncio.sleep(fault.delay)
        if fault.hold_before:
            await self._hold(record)

    async def _hold(self, record: CallT) -> None:
        record.outcome = HELD
        self._journal.note(record)
        await self._released.wait()

    def broken_answer(self, request: web.Request, fault: FaultT, record: CallT) -> web.Response:
        """The fault's own answer; it finishes the call."""
        if fault.answer == "reset":
            reset_connection(request.transport)
            self._journal.finish(record, None, fault.name)
            return web.Response()
        answer = self.answer_of(fault, record)
        self._journal.finish(record, answer.status, fault.name)
        return answer
