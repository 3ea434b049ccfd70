"""The port to a person's reminders and deferred tasks, which bot/schedule/ stores and fires.

The chat, the topic and the person are always those of the run: nothing here takes a target.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    from harness.context import RunContext
    from harness.ports import Clock
    from harness.scheduling.when import When


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule. next_at: None when it has ended."""

    id: str
    text: str
    when: When
    next_at: datetime | None


class TooMany(Exception):
    """The limit of schedules is reached. whose: that of the person everywhere, or of everyone in this chat."""

    def __init__(self, limit: int, whose: Literal["person", "chat"]) -> None:
        super().__init__(f"{limit} of one {whose}")
        self.limit = limit
        self.whose = whose


class Schedules(Protocol):
    """Each call sees only what the run's person has in the run's chat. Each change commits before it returns."""

    async def create(self, ctx: RunContext, call: str, text: str, when: When) -> Schedule:
        """Create one. call: names the tool call within the run; repeating it returns the existing one. Raises
        TooMany."""

    async def own(self, ctx: RunContext) -> list[Schedule]:
        """The active ones, in the order in which they are due."""

    async def cancel(self, ctx: RunContext, schedule_id: str) -> Schedule | None:
        """Cancel one; None if there is none with that id. One that is already cancelled is returned again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """What the tool needs. shortest: minimum interval between two times of one schedule."""

    schedules: Schedules
    shortest: timedelta = timedelta(minutes=15)


@dataclass(slots=True)
class MemorySchedules:
    """Schedules in memory, which never fire."""

    clock: Clock
    limit: int = 20
    _kept: dict[tuple[str, str], Schedule] = field(default_factory=dict)
    """Keyed by (conversation and speaker, id)."""
    _made: dict[str, str] = field(default_factory=dict)

    async def create(self, ctx: RunContext, call: str, text: str, when: When) -> Schedule:
        own = await self.own(ctx)
        made = self._made.get(f"{ctx.run_id}/{call}")
        if made is not None:
            return self._kept[_whose(ctx), made]
        if len(own) >= self.limit:
            raise TooMany(self.limit, "person")
        schedule = Schedule(id=f"s{len(self._made) + 1}", text=text, when=when, next_at=when.next(self.clock.now()))
        self._made[f"{ctx.run_id}/{call}"] = schedule.id
        self._kept[_whose(ctx), schedule.id] = schedule
        return schedule

    async def own(self, ctx: RunContext) -> list[Schedule]:
        return [schedule for (whose, _), schedule in self._kept.items() if whose == _whose(ctx) and schedule.next_at]

    async def cancel(self, ctx: RunContext, schedule_id: str) -> Schedule | None:
        known = self._kept.get((_whose(ctx), schedule_id))
        if known is not None:
            self._kept[_whose(ctx), schedule_id] = replace(known, next_at=None)
        return known


def _whose(ctx: RunContext) -> str:
    return f"{ctx.conversation} {ctx.speaker.id}"
