"""The world of these tests: a real store, a turned clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bot.store import Store
from tests.bot.memory.world import World
from tests.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    clock = VirtualClock()
    store = await Store.open(f"sqlite:///{tmp_path}/antler.db", clock=clock)
    try:
        yield World(store, clock)
    finally:
        await store.close()
