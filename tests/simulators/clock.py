"""A simulated platform's clock, which tests can advance."""

import time


class Clock:
    """Unix seconds plus what the test added; everything that ages on the platform uses it."""

    def __init__(self) -> None:
        self._offset = 0.0

    def now(self) -> float:
        """Unix time in seconds."""
        return time.time() + self._offset

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self._offset += seconds
