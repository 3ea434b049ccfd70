"""Simulators of every platform and of a model, for tests of the wizard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulators.feishu import client as feishu_client
from tests.simulators.model.client import ModelSimulator
from tests.simulators.process import PROXY_VARIABLES, SimulatorProcess
from tests.simulators.slack import client as slack_client
from tests.simulators.telegram import client as telegram_client
from tests.simulators.wecom import client as wecom_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.simulators.feishu.client import FeishuSimulator
    from tests.simulators.slack.client import SlackSimulator
    from tests.simulators.telegram.client import TelegramSimulator
    from tests.simulators.wecom.client import WecomSimulator


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramSimulator]:
    with SimulatorProcess(telegram_client.MODULE) as process:
        async with telegram_client.connect(process) as client:
            yield await client.fresh_bot()


@pytest.fixture
async def slack() -> AsyncIterator[SlackSimulator]:
    with SimulatorProcess(slack_client.MODULE) as process:
        async with slack_client.connect(process) as client:
            yield await client.fresh_app()


@pytest.fixture
async def feishu() -> AsyncIterator[FeishuSimulator]:
    with SimulatorProcess(feishu_client.MODULE) as process:
        async with feishu_client.connect(process) as client:
            yield await client.fresh_app()


@pytest.fixture
async def wecom() -> AsyncIterator[WecomSimulator]:
    with SimulatorProcess(wecom_client.MODULE) as process:
        async with wecom_client.connect(process) as client:
            yield await client.fresh_bot()


@pytest.fixture
async def simulator() -> AsyncIterator[ModelSimulator]:
    with SimulatorProcess("tests.simulators.model") as process:
        async with ModelSimulator(process.port) as client:
            yield client
