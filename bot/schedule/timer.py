"""Timer: puts due schedules into the inbox, once for each time, and sleeps in between."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from bot.clock import Alarm
from bot.store import schedules
from bot.store.retrying import every
from channels.message import ScheduleDue, Sender
from harness.scheduling.when import BadTime, When

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection
    from datetime import datetime

    from sqlalchemy import Connection

    from bot.store.retrying import RetryingStore
    from bot.store.schedules import ScheduleRow
    from channels.base import Clock

    Originate = Callable[[ScheduleDue, Callable[[Connection], bool]], Awaitable[None]]

log = logging.getLogger(__name__)

AGAIN_SECONDS = 10.0
"""Delay after an unexpected error."""


class Timer:
    """Fires schedules. originate: `MessageBus.originate`. accounts: the configured ones; others' schedules wait."""

    def __init__(
        self, store: RetryingStore, originate: Originate, clock: Clock, accounts: Callable[[], Collection[str]]
    ) -> None:
        self._store = store
        self._originate = originate
        self._clock = clock
        self._accounts = accounts
        self._alarm = Alarm(clock)

    def wake(self) -> None:
        """Check again: something may be due earlier than expected."""
        self._alarm.ring()

    async def serve(self) -> None:
        """Fire what is due, until cancelled. A schedule whose times were missed while no process ran fires once."""
        await every(AGAIN_SECONDS, self._clock, "firing due schedules", self._serve)

    async def _serve(self) -> None:
        while True:
            self._alarm.set()
            await self._alarm.sleep_until(await self._fire_due())

    async def _fire_due(self) -> datetime | None:
        """Fire what is due; returns when the next one is due."""
        while True:
            row = await self._store.read(partial(schedules.first_due, accounts=tuple(self._accounts())))
            if row is None or row.next_at > self._clock.now():
                return None if row is None else row.next_at
            await self._fire(row)

    async def _fire(self, row: ScheduleRow) -> None:
        """Fire once. The event and the schedule's next time are written in one transaction, and the event has a unique
        key: a crash can neither lose nor duplicate it."""
        now = self._clock.now()
        upcoming, event = _upcoming(row, now), due_event(row, now)
        if now > row.next_at:
            log.debug("schedule %s was due %.0f s ago", row.id, (now - row.next_at).total_seconds())

        def take(tx: Connection) -> bool:
            return schedules.fired(tx, row.id, row.next_at, upcoming, now)

        await self._store.until_available(lambda: self._originate(event, take))


def due_event(row: ScheduleRow, now: datetime) -> ScheduleDue:
    account = row.address.account
    return ScheduleDue(
        account=account,
        dedupe_keys=(f"s:{row.id}:{row.next_at.isoformat()}",),
        sent_at=row.next_at,
        received_at=now,
        schedule_id=row.id,
        address=row.address,
        reply_to=row.reply_to if row.address.topic is not None else None,
        sender=Sender(id=row.person.removeprefix(f"{account}:"), display_name=row.name),
        text=row.text,
        language=row.language,
        timezone=row.timezone,
    )


def _upcoming(row: ScheduleRow, now: datetime) -> datetime | None:
    """The next time in the future: missed times are skipped."""
    if row.kind == "once":
        return None
    try:
        return When(row.kind, row.spec, row.timezone).next(now)
    except (BadTime, LookupError) as error:
        # Made by another version, or its timezone is missing on this machine: it must not block the others.
        log.error("schedule %s of %s is ended: %s", row.id, row.person, error)
        return None
