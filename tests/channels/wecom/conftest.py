"""Fixtures of the adapter's tests: one simulator process for all, one robot for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from channels.wecom.channel import WecomChannel
from tests.channels.wecom.support import ACCOUNT, Bench, Gateway, config_for
from tests.simulators.process import SimulatorProcess
from tests.simulators.wecom.client import MODULE, connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from channels.wecom.connection import Timing
    from tests.simulators.wecom.client import WecomSimulator


@pytest.fixture(scope="session")
def wecom_process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess(MODULE) as process:
        yield process


@pytest.fixture
async def wecom(wecom_process: SimulatorProcess) -> AsyncIterator[WecomSimulator]:
    """A client for a fresh robot."""
    async with connect(wecom_process) as client:
        yield client


@pytest.fixture
def new_bench(wecom: WecomSimulator) -> Callable[..., Bench]:
    """A channel to the fresh robot, with settings."""

    def make(timing: Timing | None = None, **settings: Any) -> Bench:
        gateway = Gateway()
        return Bench(wecom, gateway, WecomChannel(ACCOUNT, config_for(wecom, **settings), gateway.ports(), timing))

    return make
