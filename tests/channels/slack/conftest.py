"""Fixtures of the adapter's tests: one simulator process for all, one app in a workspace of its own for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from channels.slack.channel import SlackChannel
from tests.channels.slack.support import Bench, Gateway, config_for
from tests.simulators.process import SimulatorProcess
from tests.simulators.slack.client import MODULE, connect
from tests.simulators.slack.seen import ALICE, BOB, TEAM

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.simulators.slack.client import SlackSimulator

LONG_AGO = 1_700_000_000


@pytest.fixture(scope="session")
def simulator_process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess(MODULE) as process:
        yield process


@pytest.fixture
async def slack(simulator_process: SimulatorProcess) -> AsyncIterator[SlackSimulator]:
    """A client for a fresh app; at the end nothing that it did may be a problem."""
    async with connect(simulator_process) as client:
        await client.add_chat(TEAM, people=[ALICE, BOB])
        await client.user_says("hello", at=LONG_AGO, silent=True)
        yield client


@pytest.fixture
def new_bench(slack: SlackSimulator) -> Callable[..., Bench]:
    """A channel to the fresh app, with settings."""

    def make(**settings: Any) -> Bench:
        gateway = Gateway()
        return Bench(slack, gateway, SlackChannel("slack", config_for(slack, **settings), gateway.ports()))

    return make
