"""The platform's clock, which tests can turn forward, and the unique message timestamps that it hands out."""

import time


class Clock:
    """Unix seconds plus whatever the test added; streams, statuses, triggers and rate limits age by it."""

    def __init__(self) -> None:
        self._offset = 0.0
        self._last_ts = (0, 0)

    def now(self) -> float:
        """Unix time in seconds."""
        return time.time() + self._offset

    def advance(self, seconds: float) -> None:
        """Turn the clock forward."""
        self._offset += seconds

    def next_ts(self, at: float | None = None) -> str:
        """A new message timestamp, "%d.%06d"; increasing, unless a test asks for one of the past by `at`."""
        moment = self.now() if at is None else at
        stamp = (int(moment), int((moment % 1) * 1_000_000))
        if at is None:
            stamp = max(stamp, (self._last_ts[0], self._last_ts[1] + 1))
            if stamp[1] > 999_999:
                stamp = (stamp[0] + 1, 0)
            self._last_ts = stamp
        return f"{stamp[0]}.{stamp[1]:06d}"
