"""Decides which reply of one account may make its next call: by priority, oldest first, within the budgets.

One task per account waits until the next call is allowed; each decision costs O(log n). A chat has at most one call in
flight, so that its messages appear in the order in which they were decided.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING

from bot.delivery.budget import AccountBudget, ChatBudget, Priority
from bot.tasks import Tasks
from channels.supervision import until_first

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from bot.delivery.reply import Reply
    from channels.base import Clock
    from channels.capabilities import Rate

TIMER_GRAIN = 0.001
LONGEST_SILENCE = 2.0
"""Seconds for which later replies wait for an opened one that shows nothing; normally it shows something at once."""
LEASE_RECHECK = 1.0
"""Seconds between two checks of a lease held by another process."""


class Made(IntEnum):
    """The call that a grant was used for. EDIT: a change of an existing message."""

    NOTHING = 0
    CALL = 1
    EDIT = 2


@dataclass(slots=True, eq=False)
class Ticket:
    """One reply's request for one call, not before `due`. since: determines the oldest within a priority."""

    reply: Reply
    priority: Priority
    since: float
    due: float
    dead: bool = False

    @property
    def rank(self) -> tuple[int, float, int]:
        return (self.priority, self.since, self.reply.order)


@dataclass(slots=True, eq=False)
class ChatLine:
    """The tickets waiting for one chat. version: invalidates its old entries in the account's heaps."""

    name: str
    budget: ChatBudget
    waiting: list[tuple[tuple[int, float, int], int, Ticket]] = field(default_factory=list)
    busy: bool = False
    version: int = 0
    preview_refused: bool = False

    def head(self) -> Ticket | None:
        while self.waiting and self.waiting[0][2].dead:
            heapq.heappop(self.waiting)
        return self.waiting[0][2] if self.waiting else None


class Scheduler:
    """Grants calls. perform: makes a reply's call of that priority, returns its kind. failed: called with a reply whose
    call raised. allowed: whether anything may be sent at all (the lease)."""

    def __init__(
        self,
        name: str,
        rate: Rate,
        clock: Clock,
        perform: Callable[[Reply, ChatLine, Priority], Awaitable[Made]],
        failed: Callable[[Reply], None],
        allowed: Callable[[], bool],
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._perform = perform
        self._failed = failed
        self._allowed = allowed
        self.budget = AccountBudget(rate)
        self._chats: dict[str, ChatLine] = {}
        self._tickets: dict[Reply, Ticket] = {}
        self._later: list[tuple[float, int, Ticket]] = []
        self._paused: list[tuple[float, int, int, ChatLine]] = []
        self._ready: list[tuple[tuple[int, float, int], int, int, ChatLine]] = []
        self._count = 0
        self._wake = asyncio.Event()
        self._tasks, self._calls = Tasks(f"delivery:{name}"), Tasks(f"delivery:{name}")
        self._sleeper: tuple[float, asyncio.Task[None]] | None = None

    def start(self) -> None:
        self._tasks.spawn("scheduler", self._run())

    async def close(self, grace: float = 0.0) -> None:
        """Begin no more calls; those in flight have `grace` seconds before they are cancelled."""
        await self._tasks.cancel()
        if grace and self._calls:
            await until_first(self._calls.drain(), self._clock.sleep(grace))
        await self._calls.cancel()

    def want(self, reply: Reply, priority: Priority, since: float, due: float) -> None:
        """Request a call; replaces the reply's previous request."""
        old = self._tickets.get(reply)
        if old is not None:
            if (old.priority, old.due) == (priority, due):
                return
            old.dead = True
        ticket = self._tickets[reply] = Ticket(reply, priority, since, due)
        heapq.heappush(self._later, (due, self._next(), ticket))
        self._wake.set()

    def withdraw(self, reply: Reply) -> None:
        """Remove the reply's request. A call in flight continues."""
        ticket = self._tickets.pop(reply, None)
        if ticket is not None:
            ticket.dead = True

    def strain(self, chat: str) -> float:
        """Factor on the usual interval between edits in a chat."""
        line = self._chats.get(chat)
        return 1.0 if line is None else line.budget.strain

    def release(self, chat: str) -> None:
        """Lift all blocks of a chat except the pause requested by the platform."""
        if (line := self._chats.get(chat)) is not None:
            line.budget.release()
            self._place(line, self._clock.monotonic())
            self._wake.set()

    def limited_until(self, chat: str) -> float:
        """The end, perhaps past, of the pause that the platform requested for a chat; -inf if none is known."""
        line = self._chats.get(chat)
        return -math.inf if line is None else line.budget.limited_until

    def draft_interval(self, chat: str) -> float:
        """Seconds between two drafts in a chat that its budget can sustain."""
        line = self._chats.get(chat)
        return 0.0 if line is None else line.budget.draft_interval(self._clock.monotonic())

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            self._arm(self._dispatch(self._clock.monotonic()))
            await self._wake.wait()

    def _arm(self, at: float) -> None:
        """Wake at `at` at the latest. There is one sleeper, replaced only when it would sleep too long."""
        if math.isinf(at):
            return
        if self._sleeper is not None:
            until, task = self._sleeper
            if not task.done() and until <= at:
                return
            task.cancel()
        self._sleeper = (at, self._tasks.spawn("timer", self._sleep(at)))

    async def _sleep(self, at: float) -> None:
        await self._clock.sleep(max(TIMER_GRAIN, at - self._clock.monotonic()))
        self._wake.set()

    def _dispatch(self, now: float) -> float:
        """Start every call allowed now; returns when to check again (inf: when something changes)."""
        self._collect_due(now)
        if not self._allowed():
            return now + LEASE_RECHECK if self._tickets else math.inf
        while self._ready:
            (priority, _, _), _, version, line = self._ready[0]
            if version != line.version:
                heapq.heappop(self._ready)
                continue
            at = self.budget.ready_at(now, Priority(priority))
            if at > now:
                return min(at, self._next_event())
            heapq.heappop(self._ready)
            self._grant(line, now)
        return self._next_event()

    def _collect_due(self, now: float) -> None:
        while self._later and (self._later[0][0] <= now or self._later[0][2].dead):
            ticket = heapq.heappop(self._later)[2]
            if not ticket.dead:
                line = self._line(ticket.reply)
                heapq.heappush(line.waiting, (ticket.rank, self._next(), ticket))
                self._place(line, now)
        while self._paused and self._paused[0][0] <= now:
            _, _, version, line = heapq.heappop(self._paused)
            if version == line.version:
                self._place(line, now)

    def _next_event(self) -> float:
        later = self._later[0][0] if self._later else math.inf
        return min(later, self._paused[0][0]) if self._paused else later

    def _line(self, reply: Reply) -> ChatLine:
        """The chat of a reply, created on demand and forgotten when its budget is full again."""
        line = self._chats.get(reply.chat)
        if line is None:
            budget = ChatBudget(self._rate, reply.group, self._clock.monotonic())
            line = self._chats[reply.chat] = ChatLine(reply.chat, budget)
        return line

    def _place(self, line: ChatLine, now: float) -> None:
        """Put a chat where its foremost ticket belongs (ready or paused), or forget it."""
        line.version += 1
        if line.busy:
            return
        head = line.head()
        if head is None:
            fresh = line.budget.fresh_at(now)
            if fresh <= now:
                self._chats.pop(line.name, None)
            else:
                heapq.heappush(self._paused, (fresh, self._next(), line.version, line))
            return
        at = self._ready_at(line, head, now)
        if at <= now:
            heapq.heappush(self._ready, (head.rank, self._next(), line.version, line))
        else:
            heapq.heappush(self._paused, (at, self._next(), line.version, line))

    def _ready_at(self, line: ChatLine, head: Ticket, now: float) -> float:
        """The time at which the chat allows the call, and for an edit also the budget of edits."""
        at = line.budget.ready_at(now, head.priority)
        return max(at, self.budget.edit_ready_at(now, head.priority)) if head.reply.edits else at

    def _grant(self, line: ChatLine, now: float) -> None:
        head = line.head()
        if head is None or self._ready_at(line, head, now) > now:
            self._place(line, now)
            return
        heapq.heappop(line.waiting)
        if self._tickets.get(head.reply) is head:
            del self._tickets[head.reply]
        line.busy = True
        line.version += 1
        line.budget.take(now, head.priority)
        self.budget.take(now)
        expected = Made.EDIT if head.reply.edits else Made.CALL
        if expected is Made.EDIT:
            self.budget.take_edit(now)
        task = self._calls.spawn(f"call:{line.name}", self._call(head, line, expected))
        task.add_done_callback(partial(self._called, head.reply, line))

    async def _call(self, ticket: Ticket, line: ChatLine, expected: Made) -> None:
        made = expected
        try:
            made = await self._perform(ticket.reply, line, ticket.priority)
        finally:
            now = self._clock.monotonic()
            if made:
                self.budget.land(now)
            else:
                line.budget.give_back(ticket.priority)
                self.budget.give_back()
            if made is Made.EDIT and expected is not Made.EDIT:
                self.budget.take_edit(now)
            elif made is not Made.EDIT and expected is Made.EDIT:
                self.budget.give_edit_back()

    def _called(self, reply: Reply, line: ChatLine, task: asyncio.Task[None]) -> None:
        line.busy = False
        if not task.cancelled():
            if task.exception() is not None:
                self._failed(reply)
            self._place(line, self._clock.monotonic())
            self._wake.set()

    def _next(self) -> int:
        self._count += 1
        return self._count


class Places:
    """Keeps first messages in the order in which their replies were opened: the replies that show nothing yet, and
    those waiting for them, by chat."""

    def __init__(self) -> None:
        self._silent: dict[str, dict[Reply, None]] = {}
        self._behind: dict[str, dict[Reply, None]] = {}

    def add(self, reply: Reply) -> None:
        """Add a newly opened reply, which shows nothing yet."""
        self._silent.setdefault(reply.chat, {})[reply] = None

    def not_before(self, reply: Reply) -> float:
        """The time from which the other replies of its chat let the reply make its next call."""
        if reply.visible or reply.final:
            return -math.inf
        eldest = next(iter(self._silent.get(reply.chat, ())), reply)
        if eldest.order >= reply.order:
            return -math.inf
        self._behind.setdefault(reply.chat, {})[reply] = None
        return eldest.opened_at + LONGEST_SILENCE

    def begun(self, reply: Reply) -> Iterable[Reply]:
        """Note that a reply shows something, or never will; returns those that waited, to be reconsidered."""
        silent = self._silent.get(reply.chat, {})
        if reply not in silent:
            return ()
        del silent[reply]
        if not silent:
            del self._silent[reply.chat]
        return self._behind.pop(reply.chat, ())

    def move(self, old: str, new: str) -> None:
        """Move a chat's replies to its new id."""
        for places in (self._silent, self._behind):
            if old in places:
                places[new] = places.pop(old) | places.get(new, {})
