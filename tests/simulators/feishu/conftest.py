"""Fixtures of the simulator's own tests: one process per module, a fresh app in a fresh tenant per test."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.simulators.feishu.client import MODULE, FeishuSimulator, connect
from tests.simulators.feishu.raw import Api
from tests.simulators.feishu.seen import ALICE, TEAM
from tests.simulators.process import SimulatorProcess


@pytest.fixture(scope="module")
def process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess(MODULE) as running:
        yield running


@pytest.fixture
async def feishu(process: SimulatorProcess) -> AsyncIterator[FeishuSimulator]:
    async with connect(process) as client:
        yield client


@pytest.fixture
async def api(feishu: FeishuSimulator) -> AsyncIterator[Api]:
    """A raw client; the bot may write to Alice and in the team's group."""
    await feishu.add_chat(ALICE)
    await feishu.add_chat(TEAM)
    async with Api.of(feishu) as client:
        yield client
