"""The servers that an online diagnosis asks, each a process of its own for the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulators.feishu import client as feishu_client
from tests.simulators.media import client as media_client
from tests.simulators.model.client import ModelSimulator
from tests.simulators.process import SimulatorProcess
from tests.simulators.slack import client as slack_client
from tests.simulators.telegram import client as telegram_client
from tests.simulators.transcription import client as transcription_client
from tests.simulators.wecom import client as wecom_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.simulators.feishu.client import FeishuSimulator
    from tests.simulators.media.client import MediaSimulator
    from tests.simulators.slack.client import SlackSimulator
    from tests.simulators.telegram.client import TelegramSimulator
    from tests.simulators.transcription.client import TranscriptionSimulator
    from tests.simulators.wecom.client import WecomSimulator


def _process(module: str) -> Iterator[SimulatorProcess]:
    with SimulatorProcess(module) as process:
        yield process


@pytest.fixture(scope="package")
def telegram_process() -> Iterator[SimulatorProcess]:
    yield from _process(telegram_client.MODULE)


@pytest.fixture(scope="package")
def slack_process() -> Iterator[SimulatorProcess]:
    yield from _process(slack_client.MODULE)


@pytest.fixture(scope="package")
def feishu_process() -> Iterator[SimulatorProcess]:
    yield from _process(feishu_client.MODULE)


@pytest.fixture(scope="package")
def wecom_process() -> Iterator[SimulatorProcess]:
    yield from _process(wecom_client.MODULE)


@pytest.fixture(scope="package")
def model_process() -> Iterator[SimulatorProcess]:
    yield from _process("tests.simulators.model")


@pytest.fixture(scope="package")
def transcription_process() -> Iterator[SimulatorProcess]:
    yield from _process(transcription_client.MODULE)


@pytest.fixture(scope="package")
def media_process() -> Iterator[SimulatorProcess]:
    yield from _process(media_client.MODULE)


@pytest.fixture
async def media(media_process: SimulatorProcess) -> AsyncIterator[MediaSimulator]:
    async with media_client.connect(media_process) as client:
        yield client


@pytest.fixture
async def telegram(telegram_process: SimulatorProcess) -> AsyncIterator[TelegramSimulator]:
    async with telegram_client.connect(telegram_process) as client:
        yield await client.fresh_bot(username="antler_bot")


@pytest.fixture
async def slack(slack_process: SimulatorProcess) -> AsyncIterator[SlackSimulator]:
    async with slack_client.connect(slack_process) as client:
        yield client


@pytest.fixture
async def feishu(feishu_process: SimulatorProcess) -> AsyncIterator[FeishuSimulator]:
    async with feishu_client.connect(feishu_process) as client:
        yield await client.fresh_app()


@pytest.fixture
async def wecom(wecom_process: SimulatorProcess) -> AsyncIterator[WecomSimulator]:
    async with wecom_client.connect(wecom_process) as client:
        yield client


@pytest.fixture
async def model(model_process: SimulatorProcess) -> AsyncIterator[ModelSimulator]:
    async with ModelSimulator(model_process.port) as client:
        await client.reset()
        yield client


@pytest.fixture
async def transcription(transcription_process: SimulatorProcess) -> AsyncIterator[TranscriptionSimulator]:
    async with transcription_client.connect(transcription_process) as client:
        yield client
