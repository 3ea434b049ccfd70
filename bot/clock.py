"""The real clock behind the Clock ports of channels/ and harness/, and how long things took."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from datetime import UTC, datetime


class SystemClock:
    """now is aware UTC and may jump; monotonic never goes back, so every interval is measured with it."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


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
