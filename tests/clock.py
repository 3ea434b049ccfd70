"""A clock that tests turn: nothing waits for real time, and everything due happens in order."""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

QUIET_ROUNDS = 12
"""Turns of the loop without any work under way after which everything is taken to wait for time or for the test."""
REST = 0.0005
"""Real seconds between two looks at work outside the loop. Its result wakes the loop by itself; a loop that turned
without rest would take more of the processor than that work, and of Python's one lock."""


class VirtualClock:
    """Clock port. busy: tells that work is going on outside the loop (a database thread), which must be waited for."""

    def __init__(self, busy: Callable[[], bool] = lambda: False) -> None:
        self._start = datetime(2026, 1, 1, tzinfo=UTC)
        self._now = 1000.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0
        self.busy = busy

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._now - 1000.0)

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (self._now + seconds, self._count, waker))
        await waker

    @property
    def sleeping(self) -> int:
        """Sleepers that still wait for their time."""
        return sum(not waker.done() for _, _, waker in self._sleepers)

    async def settle(self) -> None:
        """Let everything run that needs no time."""
        quiet, busy = 0, False
        while quiet < QUIET_ROUNDS:
            await asyncio.sleep(REST if busy else 0)
            busy = self.busy()
            quiet = 0 if busy else quiet + 1

    async def advance(self, seconds: float) -> None:
        """Turn the clock, waking each sleeper at its own time and letting its consequences happen before the next."""
        target = self._now + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= target:
            self._wake_next()
            await self.settle()
        self._now = target

    async def until(self, work: Awaitable[T], limit: float = 86_400.0) -> T:
        """Turn the clock as far as `work` needs; fails when it would need more than `limit` seconds or would hang."""
        task = asyncio.ensure_future(work)
        deadline = self._now + limit
        try:
            await self.settle()
            while not task.done():
                self._drop_cancelled()
                assert self._sleepers, "it waits for something that time does not bring"
                assert self._sleepers[0][0] <= deadline, f"it takes longer than {limit} s"
                self._wake_next()
                await self.settle()
            return task.result()
        finally:
            if not task.done():
                task.cancel()

    def _wake_next(self) -> None:
        at, _, waker = heapq.heappop(self._sleepers)
        if not waker.done():
            self._now = at
            waker.set_result(None)

    def _drop_cancelled(self) -> None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
