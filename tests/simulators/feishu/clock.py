"""The platform's clock."""

from tests.simulators import clock


class Clock(clock.Clock):
    """Tokens, streams, uuids and rate windows age by it."""

    def milliseconds(self) -> int:
        """Unix time in milliseconds, as most fields of the platform have it."""
        return int(self.now() * 1000)
