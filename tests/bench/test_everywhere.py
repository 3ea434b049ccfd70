"""What the scenario with four platforms makes of a crowd, and of what was measured."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.bench.crowds import Crowd
from tests.bench.everywhere import Measured, figures
from tests.bench.gauge import Memory, Meter, Watch
from tests.bench.stage import SHORT
from tests.bench.timeline import Timing
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


def test_the_figures_are_of_all_platforms_together_and_of_each() -> None:
    def timing(chat: int, final: float) -> Timing:
        return Timing(chat, 10.0, 10.1, 10.2, 10.3, 10.5, 10.4, final, 1)

    small, large = Memory(100, 80), Memory(120, 90)
    found = {"slack": [timing(1, 11.0)], "wecom": [timing(1001, 12.0)]}
    four = Measured(small, large, Watch([small, large]), Meter(1, (), cpu=0.02), found, [])
    shown = {figure.name: figure.value for figure in figures(four, four, messages=2)}
    assert shown["msgs_per_s"] == pytest.approx(1.0)
    assert shown["cpu_per_msg"] == pytest.approx(10.0)
    assert shown["inbound_p50"] == pytest.approx(100.0)
    assert [shown[f"{account}_whole_p50"] for account in found] == pytest.approx([1.0, 2.0])
    assert (shown["rss_idle"], shown["rss_most"], shown["telegram_alone_pss_after"]) == (100, 120, 90)
