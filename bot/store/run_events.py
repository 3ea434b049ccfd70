"""The events of a run in order, the effects of its tools, and the number of its model calls.

A run that was accepted does not fail because the disk is full: its two durable ports wait for room, until the run is
stopped.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, func, select, update

from bot.store import runs, usage
from bot.store.sql import insert, insert_new
from bot.store.tables import effects, run_events
from harness.ports import Effect

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from bot.store.retrying import RetryingStore
    from bot.usage.meter import Meter
    from harness.ports import EffectKey


Event = tuple[int, str, str]
"""seq, type, JSON."""


def append(tx: Connection, run_id: str, events: Sequence[Event]) -> None:
    """Add events; an event whose seq already exists is kept unchanged, so that a repeat is harmless."""
    values = [{"run_id": run_id, "seq": seq, "type": kind, "body": body} for seq, kind, body in events]
    if values:
        tx.execute(insert_new(tx.dialect.name, run_events), values)


def read(tx: Connection, run_id: str, after_seq: int = -1) -> list[Event]:
    """The run's events after `after_seq`, in order."""
    query = select(run_events.c.seq, run_events.c.type, run_events.c.body)
    query = query.where(run_events.c.run_id == run_id, run_events.c.seq > after_seq).order_by(run_events.c.seq)
    return [(row.seq, row.type, row.body) for row in tx.execute(query)]


def last_seq(tx: Connection, run_id: str) -> int | None:
    """The newest event's seq, None if there is none."""
    newest: int | None = tx.scalar(select(func.max(run_events.c.seq)).where(run_events.c.run_id == run_id))
    return newest


# Built once: they are executed at the end of every turn.
STARTED = select(run_events.c.body).where(run_events.c.run_id == bindparam("run"), run_events.c.type == "tool_started")
BEGUN = select(effects.c.tool).where(effects.c.run_id == bindparam("run"))


def tools_called(tx: Connection, run_id: str) -> set[str]:
    """The names of the tools that the run called, including calls of which a crash left no event."""
    told = {str(json.loads(body)["tool"]) for body in tx.scalars(STARTED, {"run": run_id})}
    return told | set(tx.scalars(BEGUN, {"run": run_id}))


class StoreEffectLog:
    """harness.ports.EffectLog: one row per tool call. Fenced, so that a replaced process starts no call, even one that
    was replaced while it was frozen after the commit."""

    def __init__(self, store: RetryingStore) -> None:
        self._store = store

    async def begin(self, key: EffectKey, tool: str) -> Effect | None:
        """Record `started`; if the call was recorded before, change nothing and return that record."""
        now, sent = self._store.clock.now(), self._store.clock.monotonic()

        def unit(tx: Connection) -> Effect | None:
            self._store.check_run(tx, key.run_id)
            return _begin(tx, key, tool, now)

        known = await self._store.write(unit)
        await self._store.may_act_for(key.run_id, sent)
        return known

    async def done(self, key: EffectKey, result: str) -> None:
        """Record the result of a started call. Raises LookupError when it was never started."""
        now = self._store.clock.now()

        def unit(tx: Connection) -> None:
            self._store.check_run(tx, key.run_id)
            _done(tx, key, result, now)

        await self._store.write(unit)


class StoreRunLedger:
    """harness.ports.RunLedger: the count is stored with the run. meter: its usage is written in the same commit."""

    def __init__(self, store: RetryingStore, meter: Meter | None = None) -> None:
        self._store = store
        self._meter = meter

    async def model_called(self, run_id: str) -> int:
        """Count one more model call of the run; returns the count, this call included."""
        if self._meter is not None and (counted := self._meter.counted(run_id)):
            return counted  # written with the start of the run
        calls = self._meter.unwritten(run_id) if self._meter is not None else ()

        def unit(tx: Connection) -> int:
            self._store.check_run(tx, run_id)
            usage.add(tx, calls)
            return runs.count_model_call(tx, run_id)

        count = await self._store.write(unit)
        if self._meter is not None:
            self._meter.written(run_id, calls)
        return count


def _begin(tx: Connection, key: EffectKey, tool: str, now: datetime) -> Effect | None:
    values = {
        "run_id": key.run_id,
        "call_id": key.call_id,
        "thread_id": key.thread_id,
        "tool": tool,
        "state": "started",
        "result": "",
        "started_at": now,
    }
    begun = insert(tx, effects).on_conflict_do_nothing(index_elements=["run_id", "call_id"])
    if tx.execute(begun.returning(effects.c.call_id), values).first() is not None:
        return None
    known = select(effects.c.state, effects.c.result)
    row = tx.execute(known.where(effects.c.run_id == key.run_id, effects.c.call_id == key.call_id)).one()
    return Effect(state=row.state, result=row.result)


def _done(tx: Connection, key: EffectKey, result: str, now: datetime) -> None:
    own = (effects.c.run_id == key.run_id) & (effects.c.call_id == key.call_id)
    if tx.execute(update(effects).where(own).values(state="done", result=result, done_at=now)).rowcount == 0:
        raise LookupError(f"tool call {key.call_id} of run {key.run_id} was never started")
