"""The record of a frame that a bot sent, and the journal of them."""

import time
from dataclasses import dataclass
from typing import Any

from tests.simulators import journal


@dataclass(kw_only=True)
class Record(journal.Record):
    """One frame. `acked`: monotonic seconds of the machine; the body has no secrets.

    outcome: also conflict, and ignored (a silent or closed socket). errcode: of the ack, None without one.
    chat: its target conversation.
    """

    bot_id: str | None
    socket: int
    cmd: str
    req_id: str
    body: dict[str, Any]
    acked: float | None = None
    errcode: int | None = None
    chat: str | None = None
    why: str = ""


class Journal(journal.Journal[Record]):
    """The journal of frames."""

    def finish(self, record: Record, outcome: str, errcode: int | None) -> None:
        """Close the record; errcode None if there was no answer."""
        record.acked = None if errcode is None else time.monotonic()
        record.errcode = errcode
        self.close(record, record.cmd, outcome)
