"""ScheduleService: the harness's port `Schedules` on the database, within the limits of the settings."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.store import runs, schedules
from bot.store.schedules import ScheduleRow, ScheduleState
from harness.scheduling.schedules import Schedule, Scheduling, TooMany
from harness.scheduling.when import When

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from bot.settings import Settings
    from bot.settings.sections import ScheduleSettings
    from bot.store.retrying import RetryingStore
    from bot.store.rows import RunRow
    from channels.message import Address
    from harness.context import RunContext


class ScheduleService:
    """Creates and cancels schedules. changed: called when something may be due earlier than before."""

    def __init__(self, store: RetryingStore, limits: ScheduleSettings, changed: Callable[[], None]) -> None:
        self._store = store
        self.limits = limits
        self._changed = changed

    async def create(self, ctx: RunContext, call: str, text: str, when: When) -> Schedule:
        """Schedule a reminder or a task for a run's person; once per call, even if a crash repeats the call."""
        now = self._store.clock.now()
        first = when.next(now) or now  # its time has just passed: it is due at once

        def unit(tx: Connection) -> ScheduleRow:
            made = schedules.load(tx, _id_of(ctx.run_id, call))
            if made is not None:  # by the same call, before a crash
                return made
            run = _run(tx, ctx)
            self._check(schedules.counts(tx, ctx.speaker.id, run.address))
            row = ScheduleRow(
                id=_id_of(ctx.run_id, call),
                address=run.address,
                reply_to=run.reply_to,
                conversation=ctx.conversation,
                person=ctx.speaker.id,
                name=ctx.speaker.display_name,
                language=ctx.locale,
                text=text,
                kind=when.kind,
                spec=when.spec,
                timezone=when.timezone,
                next_at=first,
                created_at=now,
            )
            return schedules.create(tx, row)

        made = await self._store.write(unit)
        self._changed()
        return _told(made)

    async def own(self, ctx: RunContext) -> list[Schedule]:
        """The active schedules of a run's person in its chat."""
        rows = await self._store.read(lambda tx: schedules.in_chat(tx, _run(tx, ctx).address, ctx.speaker.id))
        return [_told(row) for row in rows]

    async def cancel(self, ctx: RunContext, schedule_id: str) -> Schedule | None:
        """End one of these; None where there is none of that id."""
        now = self._store.clock.now()

        def unit(tx: Connection) -> ScheduleRow | None:
            row = schedules.load(tx, schedule_id)
            if row is None or not _is_theirs(row, ctx, _run(tx, ctx).address):
                return None
            ended = schedules.end(tx, row.id, ScheduleState.CANCELLED, now)
            return row if ended or row.state is ScheduleState.CANCELLED else None

        row = await self._store.write(unit)
        return None if row is None else _told(row)

    # For commands.

    async def here(self, address: Address, person: str | None) -> list[ScheduleRow]:
        """The active schedules of a chat, next first. person: only theirs."""
        return await self._store.read(lambda tx: schedules.in_chat(tx, address, person))

    async def active(self, ids: Sequence[str]) -> list[ScheduleRow]:
        """Those of the given schedules that are still active, in that order."""
        rows = await self._store.read(lambda tx: [schedules.load(tx, schedule_id) for schedule_id in ids])
        return [row for row in rows if row is not None and row.state is ScheduleState.ACTIVE]

    def cancelling(self, schedule_id: str) -> Callable[[Connection], object]:
        """The function that cancels a schedule in a transaction."""
        now = self._store.clock.now()
        return lambda tx: schedules.end(tx, schedule_id, ScheduleState.CANCELLED, now)

    def _check(self, active: tuple[int, int]) -> None:
        """Check the limits. Raises TooMany."""
        own, there = active
        if own >= self.limits.max_per_person:
            raise TooMany(self.limits.max_per_person, "person")
        if there >= self.limits.max_per_chat:
            raise TooMany(self.limits.max_per_chat, "chat")


def scheduling(settings: Settings, book: ScheduleService) -> Scheduling | None:
    """What the agent's tool needs; None if it is disabled."""
    if not settings.schedules.enabled:
        return None
    shortest = timedelta(minutes=settings.schedules.min_interval_minutes)
    return Scheduling(schedules=book, shortest=shortest)


def _id_of(run_id: str, call: str) -> str:
    """The id of a call's schedule: the same whenever the call is made, and short enough for a model to repeat."""
    return hashlib.sha256(f"{run_id} {call}".encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _run(tx: Connection, ctx: RunContext) -> RunRow:
    """The requesting run: the schedule fires in its chat, and no other chat can be given."""
    row = runs.load(tx, ctx.run_id)
    if row is None:
        raise LookupError(f"unknown run {ctx.run_id}")
    return row


def _is_theirs(row: ScheduleRow, ctx: RunContext, address: Address) -> bool:
    """Whether it belongs to the person and to this chat."""
    return (row.address.account, row.address.chat, row.person) == (address.account, address.chat, ctx.speaker.id)


def _told(row: ScheduleRow) -> Schedule:
    next_at = row.next_at if row.state is ScheduleState.ACTIVE else None
    return Schedule(id=row.id, text=row.text, when=When(row.kind, row.spec, row.timezone), next_at=next_at)
