"""What was accepted waits for the disk; the agent's own records too."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from bot.store import retrying, runs
from bot.store.retrying import RetryingStore
from bot.store.run_events import StoreEffectLog, StoreRunLedger
from harness.ports import EffectKey
from tests.bench.commits import commits_of
from tests.bot.core import FlakyStore
from tests.bot.store.samples import run_row
from tests.clock import VirtualClock

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_run_does_not_fail_because_its_records_find_no_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, run = VirtualClock(), run_row()
    store = await FlakyStore.open(f"sqlite:///{tmp_path}/antler.db", clock=clock)
    assert isinstance(store, FlakyStore)
    patient = RetryingStore(store, clock)
    key = EffectKey(thread_id="t", run_id=run.run_id, call_id="c")
    await patient.write(lambda tx: runs.open(tx, run))
    store.down = True
    counted = asyncio.create_task(StoreRunLedger(patient).model_called(run.run_id))
    begun = asyncio.create_task(StoreEffectLog(patient).begin(key, "send_mail"))
    await clock.advance(10)
    assert not counted.done()
    assert not begun.done()
    store.down = False
    await clock.advance(30)
    async with asyncio.timeout(30):
        assert await counted == 1
        assert await begun is None
    await store.close()
    said = [record.getMessage() for record in caplog.records if record.name == "bot.store.retrying"]
    assert sum("not available" in text for text in said) < 5  # two that wait are told as one
    assert "again" in said[-1]


async def test_a_unit_that_is_written_ahead_is_committed_with_the_next_and_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrying, "AHEAD_SECONDS", 1.0)  # on a busy machine the next one comes late
    clock, row = VirtualClock(), run_row()
    store = await FlakyStore.open(f"sqlite:///{tmp_path}/antler.db", clock=clock)
    assert isinstance(store, FlakyStore)
    patient, commits = RetryingStore(store, clock), commits_of(f"{tmp_path}/antler.db")
    await patient.write(lambda tx: None)  # the writer's connection is made, and its file prepared
    before = commits()
    ahead = asyncio.create_task(patient.write_ahead(lambda tx: runs.open(tx, row)))
    await asyncio.sleep(0)
    started = await patient.write(lambda tx: runs.start(tx, row.run_id, None, clock.now(), 1, calls=1))
    await ahead
    assert started.model_calls == 1
    assert commits() == before + 1
    alone = run_row()
    await patient.write_ahead(lambda tx: runs.open(tx, alone))  # nothing follows
    assert commits() == before + 2

    late = run_row(conversation="telegram:8")
    store.down = True
    behind = asyncio.create_task(patient.write(lambda tx: runs.start(tx, late.run_id, None, clock.now(), 1)))
    await asyncio.sleep(0)  # its first try fails, and the next one stands before the other's
    ahead = asyncio.create_task(patient.write_ahead(lambda tx: runs.open(tx, late)))
    await clock.settle()
    store.down = False
    await clock.advance(10)
    async with asyncio.timeout(30):
        await ahead
        assert (await behind).run_id == late.run_id

    apart = run_row(conversation="telegram:9")
    store.down = True
    ahead = asyncio.create_task(patient.write_ahead(lambda tx: runs.open(tx, apart)))
    await clock.settle()
    store.down = False  # it was away for the opening alone
    behind = asyncio.create_task(patient.write(lambda tx: runs.start(tx, apart.run_id, None, clock.now(), 1)))
    async with asyncio.timeout(30):
        while not behind.done():
            await clock.advance(1)
            await asyncio.sleep(0.01)
    await ahead
    assert behind.result().run_id == apart.run_id
    with pytest.raises(runs.RunUnknown):
        await patient.write(lambda tx: runs.start(tx, "never opened", None, clock.now(), 1))
    await store.close()
