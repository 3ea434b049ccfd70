"""A simulated platform's clock, which tests can turn forward."""

import time


class Clock:
    """Unix seconds plus whatever the test added; all that ages on the platform ages by it."""

    def __init__(self) -> None:
        self._offset = 0.0

    def now(self) -> float:
        """Unix time in seconds."""
        return time.time() + self._offset

    def advance(self, seconds: float) -> None:
        """Turn the clock forward."""
        self._offset += seconds
