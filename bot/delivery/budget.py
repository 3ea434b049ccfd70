"""How many calls an account and its chats can afford: the bookkeeping behind the scheduler."""

from __future__ import annotations

import math
from collections import deque
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from channels.capabilities import Rate

LONGEST_FLIGHT = 3.0
"""Seconds after which an unanswered call counts as arrived long ago: calls that hang must not hold up all others."""

BURST = 3
"""Calls that a chat may make at once after it was quiet; platforms bear short bursts."""

DRAFT_SHARE = 0.7
"""What edits of growing answers may use of a budget; the rest is kept for answers and for first signs of life."""

MINUTE, HOUR = 60.0, 3600.0


class Priority(IntEnum):
    """What goes first when not all can go. Within one of these the oldest goes first."""

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
"""Up to which part of a window each may fill it."""


class Window:
    """Sliding window: at most `limit` calls within any `seconds`, exactly."""

    __slots__ = ("_limit", "_seconds", "_stamps")

    def __init__(self, limit: int, seconds: float) -> None:
        self._limit = limit
        self._seconds = seconds
        self._stamps: deque[float] = deque()

    def ready_at(self, now: float, share: float) -> float:
        """The earliest time for one more call of that share; not after `now` means at once."""
        self._forget(now)
        allowed = max(1, int(self._limit * share))
        return now if len(self._stamps) < allowed else self._stamps[-allowed] + self._seconds

    def spread(self, now: float, share: float) -> float:
        """Seconds between two calls with which what is left of the share lasts until the oldest call is out of the
        window; 0 while more than half is left."""
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
        """The time at which the last call that was taken is out of it."""
        return self._stamps[-1] + self._seconds if self.used(now) else now

    def _forget(self, now: float) -> None:
        while self._stamps and self._stamps[0] + self._seconds <= now:
            self._stamps.popleft()


class Flights:
    """Limit of `limit` calls within any `seconds`, counted where they arrive: a call may get there at any time until it
    is answered, so it counts from its start until `seconds` after its end. Without that, calls whose sending was held
    up (by a busy process, by the network) arrive together with those that came after them.
    """

    __slots__ = ("_landed", "_limit", "_seconds", "_started")

    def __init__(self, limit: int, seconds: float) -> None:
        self._limit = limit
        self._seconds = seconds
        self._started: deque[float] = deque()
        self._landed: deque[float] = deque()

    def ready_at(self, now: float, share: float) -> float:
        """The earliest time for one more call of that share, as far as is known now: an answer may change it."""
        over = self.used(now) - max(1, int(self._limit * share))
        if over < 0:
            return now
        if over < len(self._landed):
            return self._landed[over] + self._seconds
        return self._started[over - len(self._landed)] + LONGEST_FLIGHT

    def take(self, now: float) -> None:
        self._started.append(now)

    def land(self, now: float) -> None:
        """One of them was answered, or failed."""
        if self._started:
            self._started.popleft()
        self._landed.append(now)

    def give_back(self) -> None:
        """The last one was not made after all."""
        if self._started:
            self._started.pop()

    def used(self, now: float) -> int:
        while self._started and self._started[0] + LONGEST_FLIGHT <= now:
            self._started.popleft()
        while self._landed and self._landed[0] + self._seconds <= now:
            self._landed.popleft()
        return len(self._started) + len(self._landed)


class Bucket:
    """`rate` calls per second on average, `burst` at once after a pause."""

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
        """The platform says the chat has had enough: what was saved up is worth nothing."""
        self._fill(now)
        self._tokens = min(self._tokens, 1.0)

    def full_at(self, now: float) -> float:
        self._fill(now)
        return now + (self._burst - self._tokens) / self._rate

    def _fill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now


class ChatBudget:
    """One chat's calls: a bucket, the windows of a minute and an hour, and the pause that a platform asked for."""

    __slots__ = ("_bucket", "_windows", "blocked_until", "limited_until", "strain")

    def __init__(self, rate: Rate, group: bool, now: float) -> None:
        self._bucket = Bucket(rate.per_chat_per_second, max(1.0, min(BURST, rate.per_chat_per_second * BURST)), now)
        per_minute = min(rate.per_chat_per_minute, rate.per_group_per_minute if group else math.inf)
        limits = ((per_minute, MINUTE), (rate.per_chat_per_hour, HOUR))
        self._windows = tuple(Window(max(1, int(most)), length) for most, length in limits if math.isfinite(most))
        self.blocked_until = -math.inf
        self.limited_until = -math.inf
        """The end of the pause that the platform itself asked for."""
        self.strain = 1.0
        """How much wider than usual edits are spaced: doubled by a 429, eased by each call that passes."""

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
        """A typing action is no message, so it spends nothing of what its chat may have."""
        return () if priority is Priority.TYPING else self._windows

    def draft_interval(self, now: float) -> float:
        """Seconds between two drafts so that a growing answer gets slower, but never stands still for long."""
        return max((window.spread(now, DRAFT_SHARE) for window in self._windows), default=0.0)

    def refuse(self, now: float, seconds: float) -> None:
        """A 429: nothing goes to this chat for `seconds`, and edits come at half the pace afterwards."""
        self.block(now + seconds)
        self.limited_until = max(self.limited_until, now + seconds)
        self._bucket.drain(now)
        self.strain = min(8.0, self.strain * 2)

    def block(self, until: float) -> None:
        self.blocked_until = max(self.blocked_until, until)

    def release(self) -> None:
        """Nothing holds the chat back any more but what the platform asked for."""
        self.blocked_until = self.limited_until

    def ease(self) -> None:
        """A call passed."""
        self.strain = max(1.0, self.strain * 0.9)

    def fresh_at(self, now: float) -> float:
        """The time from which this budget holds nothing worth remembering."""
        fresh = max(self._bucket.full_at(now), self.blocked_until)
        if self.strain > 1:
            fresh = max(fresh, self.blocked_until + MINUTE)
        return max((fresh, *(window.empty_at(now) for window in self._windows)))


class AccountBudget:
    """All calls of one account; edits of standing messages also by themselves, where the platform counts them apart."""

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
        """A call that was taken is over."""
        if self._window is not None:
            self._window.land(now)

    def give_back(self) -> None:
        if self._window is not None:
            self._window.give_back()

    def used(self, now: float) -> int:
        return 0 if self._window is None else self._window.used(now)

    @property
    def per_second(self) -> float:
        return self._rate

    def edit_ready_at(self, now: float, priority: Priority) -> float:
        """The earliest time for one more edit of a standing message."""
        return now if self._edits is None else self._edits.ready_at(now, SHARE[priority])

    def take_edit(self, now: float) -> None:
        if self._edits is not None:
            self._edits.take(now)

    def give_edit_back(self) -> None:
        """The call that was taken for an edit was none."""
        if self._edits is not None:
            self._edits.give_back()

    def draft_interval(self, streaming: int, edits: bool) -> float:
        """Seconds between two drafts of one reply so that `streaming` replies together stay within the drafts' share.

        edits: they are edits of a standing message.
        """
        every = streaming / (self._rate * DRAFT_SHARE)
        return max(every, streaming * MINUTE / (self._edits_per_minute * DRAFT_SHARE)) if edits else every
