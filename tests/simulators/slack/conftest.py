"""Fixtures of the simulator's own tests: one process per module, a fresh app in a fresh workspace per test."""

import os
from collections.abc import AsyncIterator, Iterator

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from tests.simulators.process import PROXY_VARIABLES, SimulatorProcess
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


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK reads the proxy variables by itself and knows no exceptions for loopback."""
    for name in [name for name in os.environ if name.lower() in PROXY_VARIABLES]:
        monkeypatch.delenv(name)


@pytest.fixture
def web(slack: SlackSimulator) -> AsyncWebClient:
    return web_client(slack)


@pytest.fixture
async def bolt(slack: SlackSimulator) -> AsyncIterator[BoltApp]:
    async with bolt_app(slack) as running:
        yield running
