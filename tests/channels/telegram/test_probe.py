"""What a probe of a Telegram account tells, against the simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx

from channels.base import Route
from channels.message import Message
from channels.registry import probe
from tests.channels.gateway import QuickClock
from tests.channels.telegram.support import config_for, new_token
from tests.simulators.telegram import faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from channels.base import AccountReport
    from tests.channels.telegram.support import Bench
    from tests.simulators.telegram.client import TelegramSimulator


async def probed(telegram: TelegramSimulator, *, alone: bool = True, **settings: Any) -> AccountReport:
    config = config_for(telegram, **settings)
    return await probe("telegram", "tg", config, lambda url: Route(), QuickClock(), alone=alone)


async def test_a_good_token_tells_who_the_bot_is_and_takes_nothing_away(
    telegram: TelegramSimulator, make_bench: Callable[..., Bench]
) -> None:
    await telegram.user_says("hello")
    report = await probed(telegram)
    assert report.identity is not None
    assert report.identity.bot_id == telegram.token.partition(":")[0]
    assert report.problems == ()
    assert report.seconds is not None
    own = make_bench()
    async with own.running():
        assert isinstance(await own.gateway.event(), Message)


async def test_a_revoked_token_is_named_with_its_setting(telegram: TelegramSimulator) -> None:
    await telegram.fail("getMe", faults.unauthorized())
    report = await probed(telegram)
    (problem,) = report.problems
    assert report.identity is None
    assert problem.fatal
    assert problem.remedy.startswith("set channels.tg.token to the token that @BotFather shows")
    assert telegram.token not in problem.what


async def test_another_program_that_polls_is_found_and_goes_on(
    telegram: TelegramSimulator, make_bench: Callable[..., Bench]
) -> None:
    other = make_bench()
    async with other.running():
        await telegram.wait_polled()
        (problem,) = (await probed(telegram)).problems
        assert problem.what == "another program fetches this bot's messages"
        assert "stop that program" in problem.remedy
        await telegram.user_says("still there?")
        assert isinstance(await other.gateway.event(), Message)


async def test_a_gateway_that_runs_is_not_disturbed(
    telegram: TelegramSimulator, make_bench: Callable[..., Bench]
) -> None:
    own = make_bench()
    async with own.running():
        await telegram.wait_polled()
        report = await probed(telegram, alone=False)
    assert report.identity is not None
    assert report.problems == ()
    assert own.channel.health.reconnects == 0


async def test_a_webhook_is_named_by_its_host_alone(telegram: TelegramSimulator) -> None:
    async with httpx.AsyncClient() as http:
        await http.post(f"{telegram.base_url}{telegram.token}/setWebhook", json={"url": "https://other.example/s3cret"})
    (problem,) = (await probed(telegram)).problems
    assert problem.what == "a webhook sends this bot's messages to other.example"
    assert not problem.fatal


async def test_where_the_bot_can_be_is_told(telegram: TelegramSimulator) -> None:
    for profile, note in (
        ({}, ()),
        ({"can_join_groups": False}, ("it cannot be added to groups",)),
        ({"can_read_all_group_messages": False}, ("in groups it receives only messages addressed to it",)),
    ):
        bot = await telegram.add_bot(new_token(), **profile)
        assert tuple(each.partition(" (")[0] for each in (await probed(bot, alone=False)).notes) == note


async def test_a_server_that_cannot_be_reached_is_named(telegram: TelegramSimulator) -> None:
    (problem,) = (await probed(telegram, base_url="http://127.0.0.1:1")).problems
    assert problem.remedy == "check that this machine can reach 127.0.0.1, and check network.proxy"
