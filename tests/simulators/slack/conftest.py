"""Fixtures of the simulator's own tests: one process per module, a fresh app in a fresh workspace per test."""

from collections.abc import AsyncIterator, Iterator

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from tests.simulators.process import SimulatorProcess
from tests.simulators.slack.bolt import BoltApp, bolt_app, web_client
from tests.simulators.slack.client import MODULE, SlackSimulator, connect


@pytest.fixture(scope="module")
def process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess(MODULE) as running:
        yield running


@pytest.fixture
async def slack(process: SimulatorProcess) -> AsyncIterator[SlackSimulator]:
    async with connect(process) as client:
        yield client


@pytest.fixture
def web(slack: SlackSimulator) -> AsyncWebClient:
    return web_client(slack)


@pytest.fixture
async def bolt(slack: SlackSimulator) -> AsyncIterator[BoltApp]:
    async with bolt_app(slack) as running:
        yield running
