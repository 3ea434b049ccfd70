"""How many bytes of files a message, a thread and a person may still bring; for uploads.py."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from datetime import datetime

    from channels.base import Clock

HOUR = 3600.0
HOURS = 24
PERSONS = 10_000
"""Persons whose files are counted; beyond it the one who was silent the longest is counted anew."""

Exceeded = Literal["too_large", "message_quota", "quota", "person_quota"]


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """In bytes: of one file, of all files of one thread, of one message, and of one person within 24 hours."""

    file: int
    thread: int
    message: int
    person: int


class PersonBook:
    """What each person brought within the last 24 hours, by the hour."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._hours: OrderedDict[str, dict[int, int]] = OrderedDict()

    def used(self, person: str) -> int:
        oldest = self._hour() - HOURS
        return sum(size for hour, size in self._hours.get(person, {}).items() if hour > oldest)

    def add(self, person: str, size: int, at: datetime | None = None) -> None:
        """size: negative for what was not kept in the end. at: when, now unless it is given."""
        hours = self._hours.setdefault(person, {})
        self._hours.move_to_end(person)
        oldest = self._hour() - HOURS
        for hour in [hour for hour in hours if hour <= oldest]:
            del hours[hour]
        then = self._hour(at)
        hours[then] = hours.get(then, 0) + size
        if len(self._hours) > PERSONS:
            self._hours.popitem(last=False)

    @property
    def since(self) -> datetime:
        """What was brought before does not count any more."""
        return self._clock.now() - timedelta(hours=HOURS)

    def _hour(self, at: datetime | None = None) -> int:
        return int((at or self._clock.now()).timestamp() // HOUR)


@dataclass(slots=True)
class Allowance:
    """What the files of one message may still take. thread: what the thread's uploads have left, once that is known."""

    person: str
    limits: UploadLimits
    book: PersonBook
    thread: int | None = None
    message: int = field(init=False)

    def __post_init__(self) -> None:
        self.message = self.limits.message

    def exceeded(self, size: int, more: int = 0) -> Exceeded | None:
        """Which limit a file of that size passes. more: how many of its bytes are not taken yet."""
        if size > self.limits.file:
            return "too_large"
        if more > self.message:
            return "message_quota"
        if self.thread is not None and size > self.thread:
            return "quota"
        return "person_quota" if self.book.used(self.person) + more > self.limits.person else None

    def take(self, size: int) -> None:
        """size: negative to give it back."""
        self.message -= size
        self.book.add(self.person, size)

    def limit(self, exceeded: Exceeded) -> int:
        """The limit in bytes."""
        match exceeded:
            case "too_large":
                return self.limits.file
            case "message_quota":
                return self.limits.message
            case "quota":
                return self.limits.thread
            case "person_quota":
                return self.limits.person
