"""What is kept of a run's events and of what it cost; written with the run's ending or pause."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from bot.store import run_events, usage
from bot.store.encoding import to_json
from bot.store.usage import UsageRow
from bot.usage.prices import cost
from harness.events import RUN_EVENT, ReasoningDelta, SubagentProgress, TextDelta, ToolProgress, Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from bot.store.rows import RunRow
    from harness.config import PriceSettings
    from harness.ports import AnyRunEvent


FIRST_KEPT = 200
"""Characters of a growing text from which it is kept before its message ends, so that a crash does not lose what people
have read; then each time it has grown by a quarter."""


@dataclass(slots=True)
class EventRecord:
    """What of a run's events is kept: deltas folded to one row per message. prices: of models, by name. usage: with a
    name for each call, so that it counts once however often it is written."""

    prices: Mapping[str, PriceSettings] = field(default_factory=dict)
    rows: list[tuple[int, str, str]] = field(default_factory=list)
    usage: list[tuple[str, Usage]] = field(default_factory=list)
    _folding: TextDelta | None = None
    _growing: str = ""
    _flushed: int = 0
    """Characters of the growing message that are in `rows`, or have been written."""

    @property
    def due(self) -> bool:
        """A growing text has become long enough to be written now."""
        return self._folding is not None and len(self._folding.text) >= max(FIRST_KEPT, self._flushed // 4)

    def add(self, event: AnyRunEvent) -> None:
        if isinstance(event, ToolProgress | SubagentProgress | ReasoningDelta):
            return  # worth showing, not worth keeping
        if isinstance(event, TextDelta):
            previous = self._folding
            if previous and previous.message_id == event.message_id:
                event = TextDelta(
                    run_id=event.run_id, seq=event.seq, message_id=event.message_id, text=previous.text + event.text
                )
            else:
                self.flush()
                if event.message_id != self._growing:
                    self._growing, self._flushed = event.message_id, 0
            self._folding = event
            return
        self.flush()
        if isinstance(event, Usage):
            self.usage.append((uuid4().hex, event))
        self._keep(event)

    def flush(self) -> None:
        if self._folding is not None:
            self._keep(self._folding)
            self._flushed += len(self._folding.text)
            self._folding = None

    def _keep(self, event: AnyRunEvent) -> None:
        self.rows.append((event.seq, event.type, to_json(RUN_EVENT, event)))

    def taken(self) -> EventRecord:
        """What there is, to be committed; this one goes on empty."""
        taken = replace(self)
        self.rows, self.usage = [], []
        return taken

    def calls(self, row: RunRow, now: datetime) -> tuple[UsageRow, ...]:
        """The model calls that are not written yet."""
        return tuple(self._call(name, event, row, now) for name, event in self.usage)

    def _call(self, name: str, event: Usage, row: RunRow, now: datetime) -> UsageRow:
        price = self.prices.get(event.model)
        return UsageRow(
            call=name,
            run_id=row.run_id,
            thread_id=row.thread_id,
            conversation=row.conversation,
            speaker=row.speaker,
            model=event.model,
            input_tokens=event.input_tokens,
            output_tokens=event.output_tokens,
            cached_tokens=event.cached_tokens,
            cost=None if price is None else cost(event, price),
            currency=None if price is None else price.currency,
            at=now,
        )

    def kept(self, rows: Sequence[run_events.Event]) -> None:
        """These rows, the first ones, need not be committed any more."""
        self.rows = [row for row in self.rows if row[0] > rows[-1][0]]

    def written(self, calls: Iterable[UsageRow]) -> None:
        """These calls need not be committed any more."""
        names = {call.call for call in calls}
        self.usage = [(name, event) for name, event in self.usage if name not in names]

    def commit(self, tx: Connection, row: RunRow, now: datetime) -> None:
        """Write it; part of the caller's unit. What is still folding has to be flushed before."""
        run_events.append(tx, row.run_id, self.rows)
        usage.add(tx, self.calls(row, now))
