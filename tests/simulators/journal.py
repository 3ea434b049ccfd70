"""The record of every request to a platform's side, in order of arrival, with a log of changes for long polls."""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tests.simulators.signals import Signal

PENDING = "pending"
HELD = "held"
UNKEPT = -1
RecordT = TypeVar("RecordT", bound="Record")
CallT = TypeVar("CallT", bound="Call")


@dataclass(kw_only=True)
class Record:
    """One request or frame. `arrived`: monotonic seconds of the machine; the journal gives it its index.

    outcome: pending, held, applied, refused (by the platform's rules), dropped (no answer), or the fault's name.
    """

    index: int = UNKEPT
    arrived: float = field(default_factory=lambda: time.monotonic())
    outcome: str = PENDING
    applied: bool = False


@dataclass(kw_only=True)
class Call(Record):
    """One HTTP request, without its token. finished: monotonic seconds. status: of HTTP, None without an answer."""

    method: str
    http_method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    finished: float | None = None
    status: int | None = None


class Journal(Generic[RecordT]):
    """Records by index; `changes` names the record of each arrival and of each later change of state.

    tally: finished records by name and outcome. lean: count only and keep no records, for hours of traffic.
    """

    def __init__(self) -> None:
        self.records: list[RecordT] = []
        self.changes: list[int] = []
        self.changed = Signal()
        self.tally: Counter[tuple[str, str]] = Counter()
        self.lean = False

    def arrive(self, record: RecordT) -> RecordT:
        """Add the record of something that has just arrived."""
        if not self.lean:
            record.index = len(self.records)
            self.records.append(record)
        self.note(record)
        return record

    def note(self, record: RecordT) -> None:
        """Note a change of the record: readers get it again."""
        if record.index != UNKEPT:
            self.changes.append(record.index)
        self.changed.fire()

    def close(self, record: RecordT, name: str, outcome: str) -> None:
        """Close the record, which no longer changes, and count it under a name."""
        record.outcome = outcome
        self.tally[name, outcome] += 1
        self.note(record)

    async def since(self, position: int, wait: float) -> tuple[int, list[dict[str, Any]]]:
        """The changes after a position, waiting up to `wait` seconds for the first; with the new position."""
        if position >= len(self.changes) and wait > 0:
            await self.changed.wait(wait)
        changed = dict.fromkeys(self.changes[position:])
        return len(self.changes), [dict(vars(self.records[index])) for index in changed]


class CallJournal(Journal[CallT]):
    """The journal of a platform with an HTTP API."""

    def finish(self, record: CallT, status: int | None, outcome: str) -> None:
        """Close the record; status None when no answer was given."""
        record.finished = time.monotonic()
        record.status = status
        self.close(record, record.method, outcome)
