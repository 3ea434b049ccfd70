"""The Bot API's rate limits. Calls are always counted, but refused with growing 429s only if a test enables that."""

import time
from collections import deque
from dataclasses import dataclass, field

from tests.simulators.telegram.errors import ApiError

GROUP_WINDOW_SECONDS = 60.0


@dataclass
class Limits:
    """Rates from the Bots FAQ; `burst` messages may be sent at once in a chat, `growth` lengthens repeated waits."""

    enforce: bool = False
    per_chat_per_second: float = 1.0
    burst: int = 3
    per_group_per_minute: int = 20
    per_bot_per_second: float = 30.0
    first_retry_after: int = 3
    growth: float = 2.0
    longest_retry_after: int = 280


@dataclass
class Refusals:
    """Number of calls that each rule refused, or would have refused while not enforced."""

    chat: int = 0
    group: int = 0
    bot: int = 0


@dataclass
class _Bucket:
    tokens: float
    refilled: float

    def take(self, rate: float, capacity: float, now: float) -> bool:
        self.tokens = min(capacity, self.tokens + (now - self.refilled) * rate)
        self.refilled = now
        if self.tokens < 1.0:
            return False
        self.tokens -= 1.0
        return True


@dataclass
class _ChatMeter:
    bucket: _Bucket
    recent: deque[float] = field(default_factory=deque)
    muted_until: float = 0.0
    retry_after: float = 0.0


class RateMeter:
    """Meters of one bot: its own bucket and one per chat."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.refusals = Refusals()
        self._bot = _Bucket(limits.per_bot_per_second, time.monotonic())
        self._chats: dict[int, _ChatMeter] = {}

    def check(self, chat_id: int) -> None:
        """Count one visible call into a chat; raises ApiError 429 when enforced and over a limit."""
        now = time.monotonic()
        limits = self.limits
        meter = self._chats.get(chat_id)
        if meter is None:
            meter = self._chats[chat_id] = _ChatMeter(_Bucket(limits.burst, now))
        if limits.enforce and now < meter.muted_until:
            self.refusals.chat += 1
            raise self._refuse(meter, now)
        if self._over(meter, chat_id, now) and limits.enforce:
            raise self._refuse(meter, now)
        if now >= meter.muted_until:
            meter.retry_after = 0.0

    def _over(self, meter: _ChatMeter, chat_id: int, now: float) -> bool:
        limits = self.limits
        if not self._bot.take(limits.per_bot_per_second, limits.per_bot_per_second, now):
            self.refusals.bot += 1
            return True
        if not meter.bucket.take(limits.per_chat_per_second, limits.burst, now):
            self.refusals.chat += 1
            return True
        if chat_id < 0 and not self._take_group(meter.recent, now):
            self.refusals.group += 1
            return True
        return False

    def _take_group(self, recent: deque[float], now: float) -> bool:
        while recent and now - recent[0] > GROUP_WINDOW_SECONDS:
            recent.popleft()
        if len(recent) >= self.limits.per_group_per_minute:
            return False
        recent.append(now)
        return True

    def _refuse(self, meter: _ChatMeter, now: float) -> ApiError:
        """Refuse a call; each one that ignores the wait makes it longer, as with the real server."""
        limits = self.limits
        grown = meter.retry_after * limits.growth if meter.retry_after else float(limits.first_retry_after)
        meter.retry_after = min(float(limits.longest_retry_after), grown)
        meter.muted_until = now + meter.retry_after
        seconds = round(meter.retry_after)
        return ApiError(429, f"Too Many Requests: retry after {seconds}", {"retry_after": seconds})
