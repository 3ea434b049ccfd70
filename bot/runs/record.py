"""What is kept of a run's events and of what it cost; written by manager.py with the run's ending or pause."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.store import run_events, usage
from bot.store.encoding import to_json
from harness.events import RUN_EVENT, TextDelta, ToolProgress, Usage

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection

    from bot.store.rows import RunRow
    from harness.ports import AnyRunEvent


@dataclass(slots=True)
class EventRecord:
    """What of a run's events is kept: deltas folded to one row per message."""

    rows: list[tuple[int, str, str]] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)
    _folding: TextDelta | None = None

    def add(self, event: AnyRunEvent) -> None:
        if isinstance(event, ToolProgress):
            return  # worth showing, not worth keeping
        if isinstance(event, TextDelta):
            previous = self._folding
            if previous and previous.message_id == event.message_id:
                event = TextDelta(
                    run_id=event.run_id, seq=event.seq, message_id=event.message_id, text=previous.text + event.text
                )
            else:
                self.flush()
            self._folding = event
            return
        self.flush()
        if isinstance(event, Usage):
            self.usage.append(event)
        self._keep(event)

    def flush(self) -> None:
        if self._folding is not None:
            self._keep(self._folding)
            self._folding = None

    def _keep(self, event: AnyRunEvent) -> None:
        self.rows.append((event.seq, event.type, to_json(RUN_EVENT, event)))

    def commit(self, tx: Connection, row: RunRow, now: datetime) -> None:
        """Write it; part of the caller's unit. What is still folding has to be flushed before."""
        run_events.append(tx, row.run_id, self.rows)
        for used in self.usage:
            usage.add(
                tx,
                run_id=row.run_id,
                thread_id=row.thread_id,
                model=used.model,
                input_tokens=used.input_tokens,
                output_tokens=used.output_tokens,
                cached_tokens=used.cached_tokens,
                now=now,
            )
