"""Fixtures of the flow tests: the simulators run for the whole session, each test has a bot and a data folder of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.flow.gateway import World
from tests.simulators.model.client import ModelSimulator
from tests.simulators.process import SimulatorProcess
from tests.simulators.telegram import client as telegram_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def model_process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess("tests.simulators.model") as process:
        yield process


@pytest.fixture(scope="session")
def telegram_process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess(telegram_client.MODULE) as process:
        yield process


@pytest.fixture
async def world(
    telegram_process: SimulatorProcess, model_process: SimulatorProcess, tmp_path: Path
) -> AsyncIterator[World]:
    """Simulators and a configured gateway that is not started yet."""
    async with telegram_client.connect(telegram_process) as telegram, ModelSimulator(model_process.port) as model:
        await model.reset()
        yield World(await telegram.fresh_bot(), model, tmp_path)
