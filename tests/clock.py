"""A virtual clock for tests: nothing waits for real time, and everything due happens in order."""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

QUIET_ROUNDS = 12
"""Idle iterations of the loop after which everything is assumed to wait for time or for the test."""
REST = 0.0005
"""Real seconds between two checks for work outside the loop. Its result wakes the loop by itself; a busy loop would
take CPU time, and Python's global lock, from that work."""


class VirtualClock:
    """Clock port. busy: whether work is running outside the loop (in a database thread) that must be waited for."""

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
        """Number of sleepers that have not been woken."""
        return sum(not waker.done() for _, _, waker in self._sleepers)

    async def settle(self) -> None:
        """Run everything that needs no time."""
        quiet, busy = 0, False
        while quiet < QUIET_ROUNDS:
            await asyncio.sleep(REST if busy else 0)
            busy = self.busy()
            quiet = 0 if busy else quiet + 1

    async def advance(self, seconds: float) -> None:
        """Advance the clock, waking each sleeper at its own time and completing the consequences before the next."""
        target = self._now + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= target:
            self._wake_next()
            await self.settle()
        self._now = target

    async def until(self, work: Awaitable[T], limit: float = 86_400.0) -> T:
        """Advance the clock as far as `work` needs; fail if it needs more than `limit` seconds or hangs."""
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
