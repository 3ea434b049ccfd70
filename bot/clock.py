"""The real clock behind the Clock ports of channels/ and harness/, an alarm, and a histogram of durations."""

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
"""Seconds after which a sleeping alarm reads the wall clock again, as it may be set and advances while the machine
sleeps. This costs no query."""


class SystemClock:
    """The system clock. now is aware UTC and may jump; monotonic never goes back, so intervals are measured with it."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Alarm:
    """Ends the sleep of a task at a given time, or earlier when it is rung."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()

    def set(self) -> None:
        """Clear the alarm: only a ring after this call counts."""
        self._rung.clear()

    async def sleep_until(self, at: datetime | None) -> None:
        """Sleep until that time (None: without limit), or until the alarm has been rung since `set`."""
        while not self._rung.is_set():
            if at is None:
                await self._rung.wait()
            elif (left := (at - self._clock.now()).total_seconds()) <= 0:
                return
            else:
                await until_first(self._rung.wait(), self._clock.sleep(min(left, LONGEST_SLEEP)))


class Durations:
    """A cumulative histogram of durations.

    STEPS: seconds, the upper bound of each bucket; longer durations count only towards `total` and `count`. total: the
    sum of all durations, in seconds.
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
        """Each bucket's upper bound, and how many durations were no longer than that."""
        return [(step, sum(self._counts[: place + 1])) for place, step in enumerate(self.STEPS)]
