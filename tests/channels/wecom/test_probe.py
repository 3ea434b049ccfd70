"""What a probe of a WeCom account tells, against the simulator."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from channels.base import Route
from channels.registry import probe
from channels.wecom.probe import UNTRIED
from tests.channels.gateway import QuickClock
from tests.channels.wecom.support import config_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from channels.base import AccountReport
    from tests.channels.wecom.support import Bench
    from tests.simulators.wecom.client import WecomSimulator


async def probed(wecom: WecomSimulator, *, alone: bool = True, **settings: Any) -> AccountReport:
    config = config_for(wecom, **settings)
    return await probe("wecom", "robot", config, lambda url: Route(), QuickClock(), alone=alone)


async def test_good_credentials_are_subscribed_with_and_let_go(wecom: WecomSimulator) -> None:
    report = await probed(wecom)
    assert report.identity is not None
    assert report.identity.bot_id == wecom.bot_id
    assert report.problems == ()


async def test_a_wrong_secret_is_refused(wecom: WecomSimulator) -> None:
    (problem,) = (await probed(wecom, secret="not-the-secret")).problems
    assert problem.remedy.endswith("to channels.robot.bot_id and channels.robot.secret")
    assert "not-the-secret" not in problem.what


async def test_another_program_that_comes_back_is_found(wecom: WecomSimulator) -> None:
    probing = asyncio.create_task(probed(wecom))
    await wecom.wait_connected()
    await wecom.kick()
    (problem,) = (await probing).problems
    assert problem.what == "another program has connected as the robot of account robot"


async def test_a_gateway_that_runs_keeps_its_subscription(
    wecom: WecomSimulator, make_bench: Callable[..., Bench]
) -> None:
    own = make_bench()
    async with own.running():
        report = await probed(wecom, alone=False)
    assert (report.notes, report.problems) == ((UNTRIED,), ())
