"""The garbage collector looks only at what is young while the process starts, and at what is new afterwards; and memory
is given back to the system when work is over."""

from __future__ import annotations

import asyncio
import gc
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bot.process import gc_tuning
from bot.process.gc_tuning import QUIET_SECONDS
from tests.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def test_what_exists_is_out_of_the_collectors_sight() -> None:
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        gc_tuning.hold()
        assert gc.get_threshold() == gc_tuning.AT_START
        gc_tuning.settle()
        assert gc.get_freeze_count() > frozen
        assert gc.get_threshold() == gc_tuning.THRESHOLDS
    finally:
        if frozen == 0:  # else what the tests' own start has frozen would be looked at again
            gc.unfreeze()
        gc.set_threshold(*thresholds)


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    """That of memory which is given back; the collector runs only when a test, or that, has it run."""
    clock = VirtualClock()
    gc.disable()
    giving = asyncio.create_task(gc_tuning.give_back(clock))
    await clock.settle()
    yield clock
    gc.enable()
    giving.cancel()
    with suppress(asyncio.CancelledError):
        await giving


def full_collections() -> int:
    return int(gc.get_stats()[2]["collections"])


async def test_memory_is_given_back_once_when_the_process_rests_after_work(clock: VirtualClock) -> None:
    began = full_collections()
    await clock.advance(3 * QUIET_SECONDS)
    assert full_collections() == began  # nothing was done
    for _ in range(3):
        gc.collect(0)  # as work has it done
        await clock.advance(QUIET_SECONDS)
    assert full_collections() == began  # it goes on
    await clock.advance(QUIET_SECONDS)
    assert full_collections() == began + 1
    await clock.advance(10 * QUIET_SECONDS)
    assert full_collections() == began + 1


async def test_free_memory_between_what_is_used_goes_back_to_the_system(clock: VirtualClock) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    blocks = [b"x" * 60_000 for _ in range(400)]
    del blocks[:-1]  # the last one holds the end of malloc's heap where it is
    before = resident()
    gc.collect(0)
    await clock.advance(2 * QUIET_SECONDS)
    assert before - resident() > 15_000_000
    assert len(blocks) == 1
