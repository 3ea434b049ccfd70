"""Scenario with four platforms: its crowd's messages arrive on each."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.bench.crowds import Crowd
from tests.bench.stage import SHORT
from tests.simulators.feishu.client import running_feishu
from tests.simulators.slack.client import running_slack
from tests.simulators.telegram.client import running_telegram
from tests.simulators.wecom.client import running_wecom
from tests.torture.on_feishu import OnFeishu
from tests.torture.on_slack import OnSlack
from tests.torture.on_telegram import OnTelegram
from tests.torture.on_wecom import OnWecom

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from tests.bench.crowds import AnyPlatform


@asynccontextmanager
async def telegram() -> AsyncIterator[AnyPlatform]:
    async with running_telegram() as simulator:
        yield OnTelegram.with_people(simulator, 2, 0)


@asynccontextmanager
async def slack() -> AsyncIterator[AnyPlatform]:
    async with running_slack() as simulator:
        yield OnSlack.with_people(simulator, 2, 0)


@asynccontextmanager
async def feishu() -> AsyncIterator[AnyPlatform]:
    async with running_feishu() as simulator:
        yield OnFeishu.with_people(simulator, 2, 0)


@asynccontextmanager
async def wecom() -> AsyncIterator[AnyPlatform]:
    async with running_wecom() as simulator:
        yield OnWecom.with_people(simulator, 2, 0)


@pytest.mark.parametrize("running", [telegram, slack, feishu, wecom])
async def test_what_a_crowd_says_is_known_by_the_number_of_its_chat(
    running: Callable[[], AbstractAsyncContextManager[AnyPlatform]],
) -> None:
    async with running() as platform:
        crowd = Crowd(platform, 7)
        await crowd.say_at_once(SHORT, 1)
        assert sorted(delivery.chat_id or 0 for delivery in await crowd.deliveries()) == [7, 8]
        assert await crowd.shown() == []
        assert await crowd.count_showing(SHORT.answer) == 0
