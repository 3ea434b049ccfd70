"""When something deferred is due: once, or repeatedly by a cron expression, in a time zone. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

if TYPE_CHECKING:
    from collections.abc import Iterator

FARTHEST = timedelta(days=5 * 366)
LONGEST_EXPRESSION = 100
DAY = timedelta(days=1)
LOOKED_AHEAD = timedelta(days=3 * 366)
"""How far ahead the intervals of a cron expression are checked."""
FIELDS = "minute hour day-of-month month day-of-week"


class BadTime(ValueError):
    """A time is not acceptable; the text says why, for the model."""


@dataclass(frozen=True, slots=True)
class When:
    """spec: for "once" the time in ISO 8601 with its offset, for "cron" the expression. timezone: an IANA name."""

    kind: Literal["once", "cron"]
    spec: str
    timezone: str

    def after(self, moment: datetime) -> Iterator[datetime]:
        """The times after that moment, in UTC. Raises BadTime for a spec that only an earlier version accepted."""
        if self.kind == "cron":
            return _occurrences(self.spec, self.timezone, moment)
        at = datetime.fromisoformat(self.spec)
        return iter((at,) if at > moment else ())

    def next(self, moment: datetime) -> datetime | None:
        """The first time after that moment; None: never again."""
        return next(self.after(moment), None)


def at_time(text: str, timezone: str, now: datetime) -> When:
    """Once at an ISO time; without an offset it is in that time zone. A time that occurs twice when clocks go back
    means the first; one skipped when they go forward is moved later by the gap. Raises BadTime."""
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadTime(f"{text.strip()[:40]!r} is not a valid time. Write it like 2026-12-24T18:00.") from None
    if len(text.strip()) < len("2026-12-24T18"):
        raise BadTime("Give the time of day too, as in 2026-12-24T18:00.")
    if at.tzinfo is None:
        at = at.replace(tzinfo=ZoneInfo(timezone))
    try:
        return _once(at.astimezone(UTC), timezone, now)
    except OverflowError:
        raise BadTime("That is too far away.") from None


def in_minutes(minutes: float, timezone: str, now: datetime) -> When:
    """Once, this many minutes from now. Raises BadTime."""
    if not math.isfinite(minutes) or minutes <= 0:
        raise BadTime("in_minutes has to be more than 0.")
    if minutes > FARTHEST / timedelta(minutes=1):
        raise BadTime("That is too far away: at most five years.")
    return _once(now + timedelta(minutes=minutes), timezone, now)


def repeated(expression: str, timezone: str, now: datetime, shortest: timedelta) -> When:
    """The times of a five-field cron expression. shortest: minimum interval. Raises BadTime."""
    spec = " ".join(expression.split())
    if len(spec) > LONGEST_EXPRESSION or len(spec.split()) != len(FIELDS.split()):
        raise BadTime(f"A cron expression has five fields: {FIELDS}; for example 0 9 * * MON-FRI.")
    times = _occurrences(spec, timezone, now)
    earlier = next(times, None)
    if earlier is None:
        raise BadTime("That cron expression is never due.")
    # The intervals within a day are the same on all days: after this many times, all were seen or one was too short.
    for later in islice(times, math.ceil(DAY / shortest) + 1):
        if later - earlier < shortest:
            minutes = round(shortest / timedelta(minutes=1))
            raise BadTime(f"That is too often: there must be at least {minutes} minutes between two times.")
        if later - now > LOOKED_AHEAD:
            break
        earlier = later
    return When("cron", spec, timezone)


def zone_name(name: str) -> str | None:
    """A time zone's name as this machine knows it, in any case, or of the only one with this city; else None.

    Also None for what people write as an offset: the sign in Etc/GMT+8, which ends alike, has the opposite meaning.
    """
    wanted, known = "_".join(name.split()).casefold(), sorted(available_timezones())
    exact = [zone for zone in known if zone.casefold() == wanted]
    found = exact or [zone for zone in known if zone.casefold().endswith(f"/{wanted}") and not zone.startswith("Etc/")]
    return found[0] if len(found) == 1 else None


def has_zone(name: str) -> bool:
    """Whether this machine knows a time zone with exactly that name."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: a folder of zones, such as Europe
        return False
    return True


def local(at: datetime, timezone: str) -> str:
    """A time as written locally: 2026-12-24 18:00 CET."""
    return f"{at.astimezone(ZoneInfo(timezone)):%Y-%m-%d %H:%M %Z}"


def local_day(at: datetime, timezone: str) -> str:
    """`local` with the day of the week, for the model."""
    return f"{at.astimezone(ZoneInfo(timezone)):%A} {local(at, timezone)}"


def _once(at: datetime, timezone: str, now: datetime) -> When:
    if at <= now:
        raise BadTime(f"{local(at, timezone)} is in the past: it is {local_day(now, timezone)}.")
    if at - now > FARTHEST:
        raise BadTime("That is too far away: at most five years.")
    return When("once", at.astimezone(UTC).isoformat(), timezone)


def _occurrences(spec: str, timezone: str, moment: datetime) -> Iterator[datetime]:
    """Times in UTC, strictly increasing: the expression's own order repeats an hour when clocks go back."""
    try:
        times = CronSim(spec, moment.astimezone(ZoneInfo(timezone)))
    except (CronSimError, ValueError) as error:
        raise BadTime(f"That cron expression cannot be read ({error}). Its fields: {FIELDS}.") from None
    return _later(times, moment)


def _later(times: CronSim, moment: datetime) -> Iterator[datetime]:
    for at in times:
        found = at.astimezone(UTC)
        if found > moment:
            moment = found
            yield found
