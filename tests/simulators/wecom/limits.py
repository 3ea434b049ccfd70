"""The platform's limits: lengths, time windows, and messages per conversation."""

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

MARKDOWN_BYTES = 20480
STREAM_SECONDS = 600.0
REPLY_SECONDS = 24 * 3600.0
QUICK_SECONDS = 5.0
MEDIA_URL_SECONDS = 300.0
MEDIA_ID_SECONDS = 3 * 24 * 3600.0
UPLOAD_SECONDS = 1800.0
CHUNK_BYTES = 512 * 1024
CHUNKS = 100
SMALLEST_FILE = 5
MEGABYTE = 1024 * 1024
LARGEST_FILE = {"image": 10 * MEGABYTE, "voice": 2 * MEGABYTE, "video": 10 * MEGABYTE, "file": 20 * MEGABYTE}


@dataclass(frozen=True)
class Limits:
    """Limits for messages of one conversation. refreshes: whether later frames of a stream count as well."""

    per_minute: int = 30
    per_hour: int = 1000
    refreshes: bool = True

    def changed(self, spec: dict[str, Any]) -> "Limits":
        """The same with other numbers."""
        return replace(self, **spec)


@dataclass
class Meter:
    """The messages of one conversation in the last hour. refused: number of those over the limits."""

    stamps: deque[float] = field(default_factory=deque)
    refused: int = 0

    def take(self, now: float, limits: Limits) -> bool:
        """Count a message; False if it exceeds the limits, and then it is not counted."""
        while self.stamps and self.stamps[0] <= now - 3600:
            self.stamps.popleft()
        minute = sum(stamp > now - 60 for stamp in self.stamps)
        if minute >= limits.per_minute or len(self.stamps) >= limits.per_hour:
            self.refused += 1
            return False
        self.stamps.append(now)
        return True
