"""The platform's clock, which also generates unique message timestamps."""

from tests.simulators import clock


class Clock(clock.Clock):
    """The clock by which streams, statuses, triggers and rate limits age."""

    def __init__(self) -> None:
        super().__init__()
        self._last_ts = (0, 0)

    def next_ts(self, at: float | None = None) -> str:
        """A new message timestamp, "%d.%06d"; increasing, unless a test requests one of the past by `at`."""
        moment = self.now() if at is None else at
        stamp = (int(moment), int((moment % 1) * 1_000_000))
        if at is None:
            stamp = max(stamp, (self._last_ts[0], self._last_ts[1] + 1))
            if stamp[1] > 999_999:
                stamp = (stamp[0] + 1, 0)
            self._last_ts = stamp
        return f"{stamp[0]}.{stamp[1]:06d}"
