"""Fixtures of the adapter's tests: one simulator process for all, one app for each."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.channels.feishu.support import Bench, bench_for
from tests.simulators.feishu.client import MODULE, connect
from tests.simulators.feishu.seen import ALICE, TEAM, TOPICS
from tests.simulators.process import SimulatorProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.simulators.feishu.client import FeishuSimulator


@pytest.fixture(scope="session")
def feishu_process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess(MODULE) as process:
        yield process


@pytest.fixture
async def feishu(feishu_process: SimulatorProcess) -> AsyncIterator[FeishuSimulator]:
    """A fresh app; its direct chat with Alice and its groups are known."""
    async with connect(feishu_process) as client:
        app = await client.fresh_app()
        for place in (ALICE, TEAM, TOPICS):
            await app.add_chat(place)
        yield app


@pytest.fixture
def new_bench(feishu: FeishuSimulator) -> Callable[..., Bench]:
    """A channel to the fresh app, with settings."""
    return partial(bench_for, feishu)
