"""The platform's clock, which tests can turn forward: tokens, streams, uuids and rate windows age by it."""

import time


class Clock:
    """Unix seconds plus whatever the test added."""

    def __init__(self) -> None:
        self._offset = 0.0

    def now(self) -> float:
        """Unix time in seconds."""
        return time.time() + self._offset

    def milliseconds(self) -> int:
        """Unix time in milliseconds, as most fields of the platform have it."""
        return int(self.now() * 1000)

    def advance(self, seconds: float) -> None:
        """Turn the clock forward."""
        self._offset += seconds
