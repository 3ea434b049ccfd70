"""Rate limits of an account and its chats: the bookkeeping behind the scheduler."""

from __future__ import annotations

import math
from collections import deque
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from channels.capabilities import Rate

LONGEST_FLIGHT = 3.0
"""Seconds after which an unanswered call no longer counts: calls that hang must not hold up all others."""

BURST = 3
"""Calls that a chat may make at once after a quiet period; platforms tolerate short bursts."""

DRAFT_SHARE = 0.7
"""Share of a budget for edits of growing answers; the rest is reserved for answers and first signs of life."""

MINUTE, HOUR = 60.0, 3600.0


class Priority(IntEnum):
    """Order of calls that compete for a budget; within one priority the oldest goes first."""

    FINAL = 0
    QUESTION = 1
    PROGRESS = 2
    DRAFT = 3
    TYPING = 4


SHARE = {
    Priority.FINAL: 1.0,
    Priority.QUESTION: 1.0,
    Priority.PROGRESS: 0.85,
    Priority.DRAFT: DRAFT_SHARE,
    Priority.TYPING: 0.5,
}
"""Share of a window up to which each priority may fill it."""


class Window:
    """An exact sliding window: at most `limit` calls within any `seconds`."""

    __slots__ = ("_limit", "_seconds", "_stamps")

    def __init__(self, limit: int, seconds: float) -> None:
        self._limit = limit
        self._seconds = seconds
        self._stamps: deque[float] = deque()

    def ready_at(self, now: float, share: float) -> float:
        """The earliest time for another call of that share; `now` or earlier means at once."""
        self._forget(now)
        allowed = max(1, int(self._limit * share))
        return now if len(self._stamps) < allowed else self._stamps[-allowed] + self._seconds

    def spread(self, now: float, share: float) -> float:
        """Seconds between two calls so that the remaining share lasts until the oldest call leaves the window; 0 while
        at least half of it is left."""
        used, allowed = self.used(now), max(1, int(self._limit * share))
        if used * 2 <= allowed or used >= allowed:
            return 0.0
        return (self._stamps[0] + self._seconds - now) / (allowed - used)

    def take(self, now: float) -> None:
        self._stamps.append(now)

    def give_back(self) -> None:
        """Undo the last `take`: the call was not needed."""
        if self._stamps:
            self._stamps.pop()

    def used(self, now: float) -> int:
        self._forget(now)
        return len(self._stamps)

    def empty_at(self, now: float) -> float:
        """The time at which the latest call leaves the window."""
        return self._stamps[-1] + self._seconds if self.used(now) else now

    def _forget(self, now: float) -> None:
        while self._stamps and self._stamps[0] + self._seconds <= now:
            self._stamps.popleft()


class Flights:
    """A limit of `limit` calls within any `seconds`, as counted by the platform: a call may arrive there at any time
    until it is answered, so it counts from its start until `seconds` after its end. Otherwise, calls that were delayed
    (by a busy process or the network) could arrive together with later ones.
    """

    __slots__ = ("_landed", "_limit", "_seconds", "_started")

    def __init__(self, limit: int, seconds: float) -> None:
        self._limit = limit
        self._seconds = seconds
        self._started: deque[float] = deque()
        self._landed: deque[float] = deque()

    def ready_at(self, now: float, share: float) -> float:
        """The earliest time for another call of that share, by what is known now: an answer may change it."""
        over = self.used(now) - max(1, int(self._limit * share))
        if over < 0:
            return now
        if over < len(self._landed):
            return self._landed[over] + self._seconds
        return self._started[over - len(self._landed)] + LONGEST_FLIGHT

    def take(self, now: float) -> None:
        self._started.append(now)

    def land(self, now: float) -> None:
        """Record that a call was answered, or failed."""
        if self._started:
            self._started.popleft()
        self._landed.append(now)

    def give_back(self) -> None:
        """Undo the last `take`: the call was not made."""
        if self._started:
            self._started.pop()

    def used(self, now: float) -> int:
        while self._started and self._started[0] + LONGEST_FLIGHT <= now:
            self._started.popleft()
        while self._landed and self._landed[0] + self._seconds <= now:
            self._landed.popleft()
        return len(self._started) + len(self._landed)


class Bucket:
    """A token bucket: `rate` calls per second on average, `burst` at once after a pause."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._at = now

    def ready_at(self, now: float) -> float:
        self._fill(now)
        return now if self._tokens >= 1 - 1e-9 else now + (1 - self._tokens) / self._rate

    def take(self, now: float) -> None:
        self._fill(now)
        self._tokens -= 1

    def give_back(self) -> None:
        self._tokens = min(self._burst, self._tokens + 1)

    def drain(self, now: float) -> None:
        """Discard the accumulated burst after the platform reported a limit."""
        self._fill(now)
        self._tokens = min(self._tokens, 1.0)

    def full_at(self, now: float) -> float:
        self._fill(now)
        return now + (self._burst - self._tokens) / self._rate

    def _fill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now


class ChatBudget:
    """One chat's budget: a bucket, the windows of a minute and an hour, and the pause requested by the platform."""

    __slots__ = ("_bucket", "_windows", "blocked_until", "limited_until", "strain")

    def __init__(self, rate: Rate, group: bool, now: float) -> None:
        self._bucket = Bucket(rate.per_chat_per_second, max(1.0, min(BURST, rate.per_chat_per_second * BURST)), now)
        per_minute = min(rate.per_chat_per_minute, rate.per_group_per_minute if group else math.inf)
        limits = ((per_minute, MINUTE), (rate.per_chat_per_hour, HOUR))
        self._windows = tuple(Window(max(1, int(most)), length) for most, length in limits if math.isfinite(most))
        self.blocked_until = -math.inf
        self.limited_until = -math.inf
        """The end of the pause requested by the platform itself."""
        self.strain = 1.0
        """Factor on the usual interval between edits: doubled by a 429, reduced by each successful call."""

    def ready_at(self, now: float, priority: Priority) -> float:
        ready = max(self._bucket.ready_at(now), self.blocked_until)
        return max((ready, *(window.ready_at(now, SHARE[priority]) for window in self._counting(priority))))

    def take(self, now: float, priority: Priority) -> None:
        if priority is not Priority.TYPING:
            self._bucket.take(now)
        for window in self._counting(priority):
            window.take(now)

    def give_back(self, priority: Priority) -> None:
        if priority is not Priority.TYPING:
            self._bucket.give_back()
        for window in self._counting(priority):
            window.give_back()

    def _counting(self, priority: Priority) -> tuple[Window, ...]:
        """The windows that a call counts in: none for a typing action, which is not a message."""
        return () if priority is Priority.TYPING else self._windows

    def draft_interval(self, now: float) -> float:
        """Seconds between two drafts, so that a growing answer slows down but never stands still for long."""
        return max((window.spread(now, DRAFT_SHARE) for window in self._windows), default=0.0)

    def refuse(self, now: float, seconds: float) -> None:
        """Handle a 429: nothing is sent to this chat for `seconds`, and edits continue at half the pace afterwards."""
        self.block(now + seconds)
        self.limited_until = max(self.limited_until, now + seconds)
        self._bucket.drain(now)
        self.strain = min(8.0, self.strain * 2)

    def block(self, until: float) -> None:
        self.blocked_until = max(self.blocked_until, until)

    def release(self) -> None:
        """Lift all blocks except the pause requested by the platform."""
        self.blocked_until = self.limited_until

    def ease(self) -> None:
        """Reduce the strain after a successful call."""
        self.strain = max(1.0, self.strain * 0.9)

    def fresh_at(self, now: float) -> float:
        """The time from which this budget can be forgotten without loss."""
        fresh = max(self._bucket.full_at(now), self.blocked_until)
        if self.strain > 1:
            fresh = max(fresh, self.blocked_until + MINUTE)
        return max((fresh, *(window.empty_at(now) for window in self._windows)))


class AccountBudget:
    """The budget of one account's calls, and of its edits where the platform counts those separately."""

    __slots__ = ("_edits", "_edits_per_minute", "_rate", "_window")

    def __init__(self, rate: Rate) -> None:
        self._rate = rate.per_second
        self._edits_per_minute = rate.edits_per_minute
        limit = max(1, int(self._rate)) if math.isfinite(self._rate) else 0
        self._window = Flights(limit, limit / self._rate) if limit else None
        edits = rate.edits_per_minute
        self._edits = Window(max(1, int(edits)), MINUTE) if math.isfinite(edits) else None

    def ready_at(self, now: float, priority: Priority) -> float:
        return now if self._window is None else self._window.ready_at(now, SHARE[priority])

    def take(self, now: float) -> None:
        if self._window is not None:
            self._window.take(now)

    def land(self, now: float) -> None:
        """Record that a taken call has ended."""
        if self._window is not None:
            self._window.land(now)

    def give_back(self) -> None:
        if self._window is not None:
            self._window.give_back()

    def edit_ready_at(self, now: float, priority: Priority) -> float:
        """The earliest time for another edit of an existing message."""
        return now if self._edits is None else self._edits.ready_at(now, SHARE[priority])

    def take_edit(self, now: float) -> None:
        if self._edits is not None:
            self._edits.take(now)

    def give_edit_back(self) -> None:
        """Undo the last `take_edit`: the call was not an edit."""
        if self._edits is not None:
            self._edits.give_back()

    def draft_interval(self, streaming: int, edits: bool) -> float:
        """Seconds between two drafts of one reply so that `streaming` replies together stay within the drafts' share.

        edits: the drafts are edits of existing messages.
        """
        every = streaming / (self._rate * DRAFT_SHARE)
        return max(every, streaming * MINUTE / (self._edits_per_minute * DRAFT_SHARE)) if edits else every
