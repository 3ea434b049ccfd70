"""Days from midnight to midnight, in the time zone of the gateway or of one chat."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from harness.scheduling.when import has_zone

if TYPE_CHECKING:
    from datetime import date

    from bot.store.rows import ConversationRow
    from channels.base import Clock


class Days:
    """The days of a time zone. zone: `timezone` of the config; `of` returns the days of one chat."""

    def __init__(self, zone: ZoneInfo, clock: Clock) -> None:
        self._zone = zone
        self._clock = clock

    def adopt(self, zone: ZoneInfo) -> None:
        """Use another zone from now on."""
        self._zone = zone

    @property
    def zone(self) -> str:
        """The zone's name, such as Europe/Berlin."""
        return self._zone.key

    def of(self, conversation: ConversationRow | None) -> Days:
        """The days of a conversation, which may have its own time zone."""
        return Days(ZoneInfo(zone_of(conversation, self.zone)), self._clock)

    @property
    def today(self) -> date:
        return self.day_of(self._clock.now())

    def starts(self, day: date) -> datetime:
        """The day's first moment, in UTC."""
        return datetime.combine(day, time.min, self._zone).astimezone(UTC)

    def day_of(self, moment: datetime) -> date:
        return moment.astimezone(self._zone).date()

    def told(self, moment: datetime) -> str:
        """A moment in digits, the same in every language: 2026-11-21 14:05."""
        return moment.astimezone(self._zone).strftime("%Y-%m-%d %H:%M")

    @property
    def left(self) -> float:
        """Seconds until the next midnight: a day may have 23 or 25 hours."""
        return (self.starts(self.today + timedelta(days=1)) - self._clock.now()).total_seconds()


def zone_of(conversation: ConversationRow | None, otherwise: str) -> str:
    """The time zone of a conversation. otherwise: used if it has chosen none, or one that is no longer known."""
    chosen = conversation.timezone if conversation is not None else None
    return chosen if chosen and has_zone(chosen) else otherwise
