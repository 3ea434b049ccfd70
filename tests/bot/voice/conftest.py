"""A transcription service for the tests of bot/voice: its process for the session, a customer of it for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulators.process import SimulatorProcess
from tests.simulators.transcription.client import MODULE, TranscriptionSimulator, connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture(scope="package")
def transcription_process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess(MODULE) as process:
        yield process


@pytest.fixture
async def simulator(transcription_process: SimulatorProcess) -> AsyncIterator[TranscriptionSimulator]:
    async with connect(transcription_process) as client:
        yield client
