"""One pair of simulators for all worlds of a session, which use them one after another, each with its own bot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulators.model.client import ModelSimulator
from tests.simulators.process import SimulatorProcess
from tests.simulators.telegram import client as telegram_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.simulators.telegram.client import TelegramSimulator


@pytest.fixture(scope="session")
def model_process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess("tests.simulators.model") as process:
        yield process


@pytest.fixture(scope="session")
def telegram_process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess(telegram_client.MODULE) as process:
        yield process


@pytest.fixture
async def telegram(telegram_process: SimulatorProcess) -> AsyncIterator[TelegramSimulator]:
    async with telegram_client.connect(telegram_process) as client:
        yield client


@pytest.fixture
async def model(model_process: SimulatorProcess) -> AsyncIterator[ModelSimulator]:
    async with ModelSimulator(model_process.port) as client:
        yield client
