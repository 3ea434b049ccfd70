"""Fixtures of the flow tests: simulators for the whole session, a bot and a folder for each gateway."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.flow.gateway import World
from tests.flow.sandboxed import MARK
from tests.simulators.media import client as media_client
from tests.simulators.model.client import ModelSimulator, take_malformed
from tests.simulators.process import SimulatorProcess
from tests.simulators.telegram import client as telegram_client
from tests.simulators.telegram.seen import Person
from tests.simulators.transcription import client as transcription_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

_PERSON_IDS = itertools.count(20_001)
_MARKS = itertools.count(1)


@pytest.fixture(scope="session")
def model_process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess("tests.simulators.model") as process:
        yield process


@pytest.fixture(autouse=True)
def only_well_formed_requests(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail if a strict provider would refuse a request of a flow test, even if the gateway would recover from that."""
    yield
    if "model_process" in request.fixturenames:
        process: SimulatorProcess = request.getfixturevalue("model_process")
        assert take_malformed(process.port) == []


@pytest.fixture(scope="session")
def telegram_process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess(telegram_client.MODULE) as process:
        yield process


@pytest.fixture(scope="session")
def transcription_process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess(transcription_client.MODULE) as process:
        yield process


@pytest.fixture(scope="session")
def media_process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess(media_client.MODULE) as process:
        yield process


@pytest.fixture
async def world(
    telegram_process: SimulatorProcess, model_process: SimulatorProcess, tmp_path: Path
) -> AsyncIterator[World]:
    """Simulators and a configured gateway that is not started yet."""
    async with telegram_client.connect(telegram_process) as telegram, ModelSimulator(model_process.port) as model:
        await model.reset()
        yield World(await telegram.fresh_bot(), model, tmp_path)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def public_world(
    telegram_process: SimulatorProcess, model_process: SimulatorProcess, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    """Like `world`, for one gateway shared by all tests of a module, to which everyone has access.

    A module defines its `gateway` fixture with it; each of its tests uses its own `person`.
    """
    async with telegram_client.connect(telegram_process) as telegram, ModelSimulator(model_process.port) as model:
        await model.reset()
        settings = {
            "access": {"dm": "open", "i_accept_public": True},
            # Tests write faster than people.
            "channels": {"telegram": {"rate": {"per_chat_per_second": 20, "per_group_per_minute": 1200}}},
        }
        yield World(await telegram.fresh_bot(), model, tmp_path_factory.mktemp("gateway"), settings)


@pytest.fixture
def person() -> Person:
    """A person that no other test uses."""
    number = next(_PERSON_IDS)
    return Person(number, f"Person{number}")


@pytest.fixture
def mark() -> str:
    """A number of seconds for `sleep` that no other process on this machine uses."""
    return f"60.{next(_MARKS):04}{MARK}"
