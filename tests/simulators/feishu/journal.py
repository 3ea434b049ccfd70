"""The record of every request to the platform's side, in order of arrival, with a log of changes for long polls."""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.simulators.telegram.signals import Signal

PENDING = "pending"
UNKEPT = -1


@dataclass
class Record:
    """One request. `arrived` and `finished` are monotonic seconds of the machine; nothing here shows a token.

    method: the endpoint's name (see routes.py), "unknown" for one that the simulator does not have.
    params: the JSON body or the form's fields (a file as {name, size, type}); secrets are masked.
    outcome: pending, held, applied, refused (by the platform's rules), dropped (no answer), or the fault's name.
    code: of the answer; 0 for success, None before the answer and where no JSON was answered.
    """

    index: int
    app_id: str | None
    method: str
    http_method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    arrived: float
    params: dict[str, Any] = field(default_factory=dict)
    chat_id: str | None = None
    message_id: str | None = None
    card_id: str | None = None
    finished: float | None = None
    status: int | None = None
    code: int | None = None
    outcome: str = PENDING
    applied: bool = False


class Journal:
    """Records by index; `changes` names the record of each arrival and of each later change of state.

    tally: finished requests by method and outcome. lean: count only and keep no records, for hours of traffic.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.changes: list[int] = []
        self.changed = Signal()
        self.tally: Counter[tuple[str, str]] = Counter()
        self.lean = False

    def arrive(
        self,
        app_id: str | None,
        method: str,
        http_method: str,
        path: str,
        *,
        query: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Record:
        """Open the record of a request that just came in."""
        index = UNKEPT if self.lean else len(self.records)
        record = Record(index, app_id, method, http_method, path, query or {}, headers or {}, time.monotonic())
        if not self.lean:
            self.records.append(record)
        self.note(record)
        return record

    def note(self, record: Record) -> None:
        """The record changed: readers get it again."""
        if record.index != UNKEPT:
            self.changes.append(record.index)
        self.changed.fire()

    def finish(self, record: Record, status: int | None, outcome: str) -> None:
        """Close the record; status None when no answer was given."""
        record.finished = time.monotonic()
        record.status = status
        record.outcome = outcome
        self.tally[record.method, outcome] += 1
        self.note(record)

    async def since(self, position: int, wait: float) -> tuple[int, list[dict[str, Any]]]:
        """What changed after a position, waiting up to `wait` seconds for the first change; with the new position."""
        if position >= len(self.changes) and wait > 0:
            await self.changed.wait(wait)
        changed = dict.fromkeys(self.changes[position:])
        return len(self.changes), [dict(vars(self.records[index])) for index in changed]
