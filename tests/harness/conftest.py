"""Fixtures of the harness tests. harness comes first: it must be imported before langgraph."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from tests.harness.support import SCRIPTS, Bench, Script
from tests.simulators.model.client import ModelSimulator
from tests.simulators.process import SimulatorProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

FORBIDDEN = ("Deserializing unregistered type", "Blocked deserialization", "Could not reconstruct")


@pytest.fixture(autouse=True)
def only_json_types_in_checkpoints(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A value that a checkpoint cannot give back as it was is told by a log line only; here it fails the test.

    A test that expects the line takes it away with `caplog.clear()`.
    """
    with caplog.at_level(logging.WARNING, "langgraph"):
        yield
    assert [r.getMessage() for r in caplog.get_records("call") if r.getMessage().startswith(FORBIDDEN)] == []


@pytest.fixture
def script() -> Iterator[Script]:
    """The script of the model `main`."""
    SCRIPTS["main"] = Script()
    yield SCRIPTS["main"]
    SCRIPTS.clear()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "checkpoints.sqlite")


@pytest.fixture(scope="session")
def model_server() -> Iterator[SimulatorProcess]:
    with SimulatorProcess("tests.simulators.model") as process:
        yield process


@pytest.fixture
async def simulator(model_server: SimulatorProcess) -> AsyncIterator[ModelSimulator]:
    """An OpenAI-compatible server in its own process, with a clean record."""
    async with ModelSimulator(model_server.port) as client:
        await client.reset()
        yield client
