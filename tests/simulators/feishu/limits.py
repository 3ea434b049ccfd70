"""The platform's limits and the windows that count calls against them."""

from collections import Counter, deque
from dataclasses import dataclass, field

TEXT_BYTES = 150 * 1024
CARD_BYTES = 30 * 1024
UUID_CHARACTERS = 50
UUID_SECONDS = 3600.0
CARD_UUID_CHARACTERS = 64
MESSAGE_EDITS = 20
PATCH_SECONDS = 14 * 24 * 3600.0
CARD_ELEMENTS = 200
# The platform publishes no number; it was observed to refuse more than five.
CARD_TABLES = 5
ELEMENT_CHARACTERS = 100_000
STREAM_SECONDS = 600.0
IMAGE_BYTES = 10 * 1024 * 1024
FILE_BYTES = 30 * 1024 * 1024
RESOURCE_BYTES = 100 * 1024 * 1024
CONNECTIONS = 50
CALLBACK_TOKEN_SECONDS = 1800.0
CALLBACK_TOKEN_USES = 2


@dataclass(frozen=True)
class Rates:
    """Allowed calls. enforce False: excess calls are only counted (`FeishuSimulator.refusals`)."""

    enforce: bool = True
    endpoint_per_second: int = 50
    endpoint_per_minute: int = 1000
    chat_per_second: int = 5
    patches_per_second: int = 5
    card_per_second: int = 10


@dataclass
class Meter:
    """Sliding windows by what is counted; refusals: calls of each kind that were, or would have been, refused."""

    rates: Rates = Rates()
    refusals: Counter[str] = field(default_factory=Counter)
    _windows: dict[tuple[str, str, float], deque[float]] = field(default_factory=dict)

    def excess(self, kind: str, key: str, limit: int, seconds: float, now: float) -> float:
        """Count a call; returns 0.0 within the limit, else the seconds until the next one is allowed."""
        window = self._windows.setdefault((kind, key, seconds), deque())
        while window and now - window[0] >= seconds:
            window.popleft()
        if len(window) < limit:
            window.append(now)
            return 0.0
        self.refusals[kind] += 1
        return seconds - (now - window[0]) if self.rates.enforce else 0.0
