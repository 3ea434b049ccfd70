"""The real clock behind the Clock ports of channels/ and harness/, and how long things took."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from channels.supervision import until_first

if TYPE_CHECKING:
    from channels.base import Clock

LONGEST_SLEEP = 60.0
"""Seconds until the clock on the wall is looked at again: it may be set, and goes on while the machine sleeps. That
costs no query."""


class SystemClock:
    """now is aware UTC and may jump; monotonic never goes back, so every interval is measured with it."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Alarm:
    """Ends the sleep of a task: at a time, or when it is rung."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()

    def set(self) -> None:
        """Only what rings from now on counts."""
        self._rung.clear()

    async def sleep_until(self, at: datetime | None) -> None:
        """Until then, None: without end, or until it was rung since `set`."""
        while not self._rung.is_set():
            if at is None:
                await self._rung.wait()
            elif (left := (at - self._clock.now()).total_seconds()) <= 0:
                return
            else:
                await until_first(self._rung.wait(), self._clock.sleep(min(left, LONGEST_SLEEP)))


class Durations:
    """Counts how long things took, in steps.

    STEPS: seconds, each the upper bound of one step; what takes longer than the last is counted in the sum and in
    `count` alone. total: seconds, of all together.
    """

    STEPS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

    def __init__(self) -> None:
        self._counts = [0] * (len(self.STEPS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(self.STEPS, seconds)] += 1
        self.total += seconds

    @property
    def count(self) -> int:
        return sum(self._counts)

    def up_to(self) -> list[tuple[float, int]]:
        """Each step's upper bound, and how many took no longer than that."""
        return [(step, sum(self._counts[: place + 1])) for place, step in enumerate(self.STEPS)]
