"""Meter: what runs use, from the moment when they tell of it until it is in the store; their events are kept with it.

Usage is written with a run's next ordinary commit (its next model call, its end), so that it costs no commit of its
own and a crash loses at most the call that was just told of.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from bot.store import usage
from bot.store.usage import UsageRow
from bot.usage.record import EventRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.store.retrying import PatientStore
    from bot.store.rows import RunRow
    from bot.usage.budgets import Payer
    from channels.base import Clock
    from harness.config import PriceSettings
    from harness.events import Usage


NANO_PER_TOKEN = 1000
"""A price of 1 for a million tokens is a thousand billionths for one."""


def cost(usage: Usage, price: PriceSettings) -> int:
    """What one call cost, in billionths of the price's currency."""
    cached = min(usage.cached_tokens, usage.input_tokens)
    cached_price = price.input if price.cached is None else price.cached
    read = (usage.input_tokens - cached) * price.input + cached * cached_price
    return round((read + usage.output_tokens * price.output) * NANO_PER_TOKEN)


class Meter:
    """prices: of the models that have one, by name."""

    def __init__(self, store: PatientStore, clock: Clock, prices: Mapping[str, PriceSettings]) -> None:
        self._store = store
        self._clock = clock
        self._prices = prices
        self._records: dict[str, tuple[RunRow, EventRecord]] = {}

    def open(self, row: RunRow) -> EventRecord:
        """The record of a run that is about to be worked on; until `close`."""
        record = EventRecord(self._prices)
        self._records[row.run_id] = (row, record)
        return record

    def close(self, run_id: str) -> None:
        self._records.pop(run_id, None)

    def unwritten(self, run_id: str) -> tuple[UsageRow, ...]:
        """What the run told of since the last write."""
        if run_id not in self._records:
            return ()
        row, record = self._records[run_id]
        return record.calls(row, self._clock.now())

    def written(self, run_id: str, calls: tuple[UsageRow, ...]) -> None:
        """These are in the store."""
        if calls and run_id in self._records:
            self._records[run_id][1].written(calls)

    async def charge(self, call: Usage, payer: Payer) -> None:
        """Record a model call that no run made."""
        price = self._prices.get(call.model)
        row = UsageRow(
            call=uuid4().hex,
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
            at=self._clock.now(),
        )
        await self._store.write(partial(usage.add, rows=(row,)))

    async def write(self, run_id: str) -> None:
        """Put what is unwritten into the store, for whoever is about to read it there."""
        calls = self.unwritten(run_id)
        if calls:
            await self._store.write(partial(usage.add, rows=calls))
            self.written(run_id, calls)
