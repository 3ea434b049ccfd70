"""The record of every frame that bots sent, in order of arrival, with a log of changes for long polls."""

import time
from dataclasses import dataclass, field
from typing import Any

from tests.simulators.telegram.signals import Signal

PENDING = "pending"


@dataclass
class Record:
    """One frame. `arrived` and `acked` are monotonic seconds of the machine; a secret in the body is left out.

    outcome: pending, applied, refused (by the platform's rules), conflict, ignored (a silent or closed socket), or the
    fault's name. errcode: of the ack, None without one. chat: the conversation that it went to.
    """

    index: int
    bot_id: str | None
    socket: int
    cmd: str
    req_id: str
    body: dict[str, Any]
    arrived: float
    acked: float | None = None
    errcode: int | None = None
    outcome: str = PENDING
    applied: bool = False
    chat: str | None = None
    why: str = ""


@dataclass
class Journal:
    """Records by index; `changes` names the record of each arrival and of each later change."""

    records: list[Record] = field(default_factory=list)
    changes: list[int] = field(default_factory=list)
    changed: Signal = field(default_factory=Signal)
    lean: bool = False

    def arrive(self, bot_id: str | None, socket: int, cmd: str, req_id: str, body: dict[str, Any]) -> Record:
        """Open the record of a frame that just came in."""
        shown = {name: value for name, value in body.items() if name not in ("secret", "base64_data")}
        record = Record(len(self.records), bot_id, socket, cmd, req_id, shown, time.monotonic())
        if not self.lean:
            self.records.append(record)
            self.note(record)
        return record

    def note(self, record: Record) -> None:
        """The record changed: readers get it again."""
        if not self.lean:
            self.changes.append(record.index)
        self.changed.fire()

    def finish(self, record: Record, outcome: str, errcode: int | None) -> None:
        """Close the record; errcode None when nothing was answered."""
        record.acked = None if errcode is None else time.monotonic()
        record.outcome, record.errcode = outcome, errcode
        self.note(record)

    async def since(self, position: int, wait: float) -> tuple[int, list[dict[str, Any]]]:
        """What changed after a position, waiting up to `wait` seconds for the first change; with the new position."""
        if position >= len(self.changes) and wait > 0:
            await self.changed.wait(wait)
        changed = dict.fromkeys(self.changes[position:])
        return len(self.changes), [dict(vars(self.records[index])) for index in changed]
