"""Meter: usage of runs, from its report until it is stored, and with it the runs' events.

Usage is written with a run's next ordinary commit (its next model call, its end), so that it needs no separate commit
and a crash loses at most the last reported call.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from bot.store import run_events, usage
from bot.store.sql import to_json
from bot.store.usage import UsageRow
from harness.events import RUN_EVENT, ReasoningDelta, SubagentProgress, TextDelta, ToolProgress, Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from bot.store.retrying import RetryingStore
    from bot.store.rows import RunRow
    from bot.usage.budgets import Payer
    from channels.base import Clock
    from harness.config import PriceSettings
    from harness.events import AnyRunEvent


NANO_PER_TOKEN = 1000
"""A price of 1 per million tokens is a thousand billionths per token."""


@dataclass(slots=True)
class Totals:
    """Usage of models since the start. tokens: by model and kind (input, cached input, and output). costs: in
    billionths, by model and currency."""

    tokens: Counter[tuple[str, str]] = field(default_factory=Counter)
    costs: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, call: Usage, price: PriceSettings | None) -> None:
        kinds = {"input": call.input_tokens, "cached": call.cached_tokens, "output": call.output_tokens}
        for kind, tokens in kinds.items():
            self.tokens[call.model, kind] += tokens
        if price is not None:
            self.costs[call.model, price.currency] += cost(call, price)


@dataclass(slots=True)
class EventRecord:
    """The part of a run's events that is kept: deltas are merged to one row per message. prices: of models, by name.
    totals: updated with the run's usage. usage: with a name for each call, so that it counts once however often it is
    written. elsewhere: another process writes the cost of calls. counted: the number of the next model call if it is
    already counted, else 0."""

    prices: Mapping[str, PriceSettings] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    rows: list[tuple[int, str, str]] = field(default_factory=list)
    usage: list[tuple[str, Usage]] = field(default_factory=list)
    elsewhere: bool = False
    counted: int = 0
    _folding: TextDelta | None = None

    def add(self, event: AnyRunEvent) -> None:
        if isinstance(event, ToolProgress | SubagentProgress | ReasoningDelta):
            return  # shown, but not kept
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
            if not self.elsewhere:
                self.usage.append((uuid4().hex, event))
            self.totals.add(event, self.prices.get(event.model))
        self._keep(event)

    def flush(self) -> None:
        if self._folding is not None:
            self._keep(self._folding)
            self._folding = None

    def _keep(self, event: AnyRunEvent) -> None:
        self.rows.append((event.seq, event.type, to_json(RUN_EVENT, event)))

    def taken(self) -> EventRecord:
        """Return the current content for a commit, and continue empty."""
        taken = replace(self)
        self.rows, self.usage = [], []
        return taken

    def calls(self, row: RunRow, now: datetime) -> tuple[UsageRow, ...]:
        """The model calls not written yet."""
        return tuple(usage_row(name, event, row, self.prices.get(event.model), now) for name, event in self.usage)

    def kept(self, rows: Sequence[run_events.Event]) -> None:
        """Drop these rows, the first ones, which have been committed."""
        self.rows = [row for row in self.rows if row[0] > rows[-1][0]]

    def written(self, calls: Iterable[UsageRow]) -> None:
        """Drop these calls, which have been committed."""
        names = {call.call for call in calls}
        self.usage = [(name, event) for name, event in self.usage if name not in names]

    def commit(self, tx: Connection, row: RunRow, now: datetime) -> None:
        """Write the record as part of the caller's unit. Call `flush` before."""
        run_events.append(tx, row.run_id, self.rows)
        usage.add(tx, self.calls(row, now))


def cost(usage: Usage, price: PriceSettings) -> int:
    """The cost of one call, in billionths of the price's currency."""
    cached = min(usage.cached_tokens, usage.input_tokens)
    cached_price = price.input if price.cached is None else price.cached
    read = (usage.input_tokens - cached) * price.input + cached * cached_price
    return usage.flat + round((read + usage.output_tokens * price.output) * NANO_PER_TOKEN)


def usage_row(name: str, call: Usage, payer: RunRow | Payer, price: PriceSettings | None, now: datetime) -> UsageRow:
    """One call as it is stored. name: of the call, so that it counts once."""
    return UsageRow(
        call=name,
        run_id=payer.run_id,
        thread_id=payer.thread_id,
        conversation=payer.conversation,
        speaker=payer.speaker,
        model=call.model,
        input_tokens=call.input_tokens,
        output_tokens=call.output_tokens,
        cached_tokens=call.cached_tokens,
        cost=None if price is None else cost(call, price),
        currency=None if price is None else price.currency,
        at=now,
    )


class Meter:
    """Records usage. prices: of models with a price, by name. elsewhere: another process writes the cost of runs."""

    def __init__(self, store: RetryingStore, clock: Clock, prices: Mapping[str, PriceSettings]) -> None:
        self._store = store
        self._clock = clock
        self._prices = prices
        self._records: dict[str, tuple[RunRow, EventRecord]] = {}
        self.totals = Totals()
        self.elsewhere = False

    def open(self, row: RunRow) -> EventRecord:
        """Open the record of a run that is about to start; until `close`."""
        record = EventRecord(self._prices, self.totals, elsewhere=self.elsewhere)
        self._records[row.run_id] = (row, record)
        return record

    def close(self, run_id: str) -> None:
        self._records.pop(run_id, None)

    def unwritten(self, run_id: str) -> tuple[UsageRow, ...]:
        """The run's calls since the last write."""
        if run_id not in self._records:
            return ()
        row, record = self._records[run_id]
        return record.calls(row, self._clock.now())

    def counted(self, run_id: str) -> int:
        """The number of the run's model calls, including the upcoming one, if that is already stored; else 0. Returned
        only once."""
        if run_id not in self._records:
            return 0
        _, record = self._records[run_id]
        count, record.counted = record.counted, 0
        return count

    def written(self, run_id: str, calls: tuple[UsageRow, ...]) -> None:
        """Note that these calls are stored."""
        if calls and run_id in self._records:
            self._records[run_id][1].written(calls)

    async def charge(self, call: Usage, payer: Payer) -> None:
        """Record a model call that is not in a run's record."""
        price = self._prices.get(call.model)
        self.totals.add(call, price)
        row = usage_row(uuid4().hex, call, payer, price, self._clock.now())
        await self._store.write(partial(usage.add, rows=(row,)))

    async def write(self, run_id: str) -> None:
        """Store unwritten calls before they are read."""
        calls = self.unwritten(run_id)
        if calls:
            await self._store.write(partial(usage.add, rows=calls))
            self.written(run_id, calls)
