"""Rate limits: calls per method, workspace and app in a window, and posts per channel. Calls are always counted."""

import math
from collections import Counter, defaultdict, deque
from dataclasses import dataclass

from tests.simulators.slack.errors import RateLimitedError

POST_METHOD = "chat.postMessage"


@dataclass(frozen=True)
class Limits:
    """Calls per `window` seconds by tier; chat.postMessage has its own rule per channel: a burst, then one per second.

    enforce: answer 429 instead of counting only.
    """

    enforce: bool = False
    window: float = 60.0
    tier1: int = 1
    tier2: int = 20
    tier3: int = 50
    tier4: int = 100
    post_seconds: float = 1.0
    post_burst: int = 4


class RateMeter:
    """The meters of one app in one workspace; `refusals` counts the calls that were, or would be, refused by method."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.refusals: Counter[str] = Counter()
        self._calls: defaultdict[str, deque[float]] = defaultdict(deque)
        self._free_at: dict[str, float] = {}

    def check(self, method: str, tier: int, channel: str | None, now: float) -> None:
        """Count a call; raises RateLimitedError if it exceeds the limit and limits are enforced. tier 0: none."""
        wait = self._post_wait(channel, now) if method == POST_METHOD else self._tier_wait(method, tier, now)
        if wait > 0:
            self.refusals[method] += 1
            if self.limits.enforce:
                raise RateLimitedError(max(1, math.ceil(wait)))

    def _tier_wait(self, method: str, tier: int, now: float) -> float:
        allowed = {1: self.limits.tier1, 2: self.limits.tier2, 3: self.limits.tier3, 4: self.limits.tier4}.get(tier)
        if allowed is None:
            return 0.0
        calls = self._calls[method]
        while calls and calls[0] <= now - self.limits.window:
            calls.popleft()
        if len(calls) >= allowed:
            return calls[0] + self.limits.window - now
        calls.append(now)
        return 0.0

    def _post_wait(self, channel: str | None, now: float) -> float:
        """A leaky bucket: `post_burst` at once, then one per `post_seconds`."""
        step = self.limits.post_seconds
        free_at = max(self._free_at.get(channel or "", 0.0), now - step * (self.limits.post_burst - 1))
        if free_at > now:
            return free_at - now
        self._free_at[channel or ""] = free_at + step
        return 0.0
