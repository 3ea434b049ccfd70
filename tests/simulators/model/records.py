"""All requests to the simulator and their outcomes; readers wait for changes instead of polling."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from tests.simulators.model.request import ImageSeen  # noqa: TC001  pydantic reads the annotation

MAX_RECORDS = 20_000


@dataclass(slots=True, kw_only=True)
class Record:
    """One request.

    state: "open", "paused" (at the pause `paused_at`), "done", "disconnected" (the client left early) or "broken" (we
    cut it). started, first_byte, first_token and last_token (as they are written), ended: monotonic seconds of the
    machine; status: of the HTTP response, 0 while none was sent.
    """

    id: int
    method: str
    path: str
    headers: dict[str, str]
    started: float
    body: Any = None
    last_user_text: str = ""
    stream: bool = False
    state: str = "open"
    paused_at: str | None = None
    status: int = 0
    first_byte: float | None = None
    first_token: float | None = None
    last_token: float | None = None
    ended: float | None = None
    error: str = ""
    images: list[ImageSeen] = field(default_factory=list)
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The records that changed after a version, and the version to ask for next time."""

    version: int
    records: list[Record]


CHANGES: TypeAdapter[Changes] = TypeAdapter(Changes)


class RecordLog:
    """Keeps the newest MAX_RECORDS records in the order of their last change. lean: without bodies of ended ones."""

    def __init__(self) -> None:
        self.lean = False
        self._records: OrderedDict[int, Record] = OrderedDict()
        self._next_id = 0
        self._version = 0
        self._changed = asyncio.Event()

    def open(self, method: str, path: str, headers: dict[str, str]) -> Record:
        """Begin the record of a request."""
        self._next_id += 1
        record = Record(id=self._next_id, method=method, path=path, headers=headers, started=time.monotonic())
        self.changed(record)
        return record

    def changed(self, record: Record) -> None:
        """Notify waiting readers of a change of the record."""
        self._version += 1
        record.version = self._version
        self._records[record.id] = record
        self._records.move_to_end(record.id)
        if len(self._records) > MAX_RECORDS:
            self._records.popitem(last=False)
        self._changed.set()

    def close(self, record: Record, state: str, error: str = "") -> None:
        """End the record; the first ending is final."""
        if record.ended is None:
            record.ended = time.monotonic()
            if self.lean:
                record.body, record.headers = None, {}
            record.state = state
            record.paused_at = None
            record.error = error
            self.changed(record)

    async def after(self, version: int, wait: float) -> Changes:
        """The changes after `version`; waits up to `wait` seconds for one."""
        deadline = time.monotonic() + wait
        while self._version <= version and (left := deadline - time.monotonic()) > 0:
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except TimeoutError:
                break
        fresh: list[Record] = []
        for record in reversed(self._records.values()):
            if record.version <= version:
                break
            fresh.append(record)
        return Changes(version=self._version, records=fresh[::-1])

    def clear(self) -> None:
        """Forget all records; ids and versions continue."""
        self._records.clear()
