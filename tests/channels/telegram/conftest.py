"""Fixtures of the adapter's tests: one simulator process for all, one bot for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from channels.telegram.channel import TelegramChannel
from tests.channels.telegram.support import Bench, Gateway, config_for, new_token
from tests.simulators.process import SimulatorProcess
from tests.simulators.telegram.client import MODULE, connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.simulators.telegram.client import TelegramSimulator


@pytest.fixture(scope="session")
def simulator_process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess(MODULE) as process:
        yield process


@pytest.fixture
async def telegram(simulator_process: SimulatorProcess) -> AsyncIterator[TelegramSimulator]:
    """A client for a fresh bot."""
    async with connect(simulator_process) as client:
        yield await client.add_bot(new_token())


@pytest.fixture
def new_bench(telegram: TelegramSimulator) -> Callable[..., Bench]:
    """A channel to the fresh bot, with settings."""

    def make(**settings: Any) -> Bench:
        gateway = Gateway()
        return Bench(telegram, gateway, TelegramChannel("telegram", config_for(telegram, **settings), gateway.ports()))

    return make
