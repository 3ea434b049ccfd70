"""Checks a robot's credentials with WeCom, which is possible only by subscribing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from channels.base import AccountReport, BotIdentity, Problem
from channels.errors import ChannelError
from channels.wecom.connection import Connection, Network, Timing
from channels.wecom.failures import Kicked, taken_over

if TYPE_CHECKING:
    from collections.abc import Callable

    from channels.base import Clock, Route
    from channels.wecom.config import WecomConfig
    from channels.wecom.frames import Callback

KICK_SECONDS = 2.0
"""How long a subscription is held: another program that reconnects at once ends it within this time."""
UNTRIED = "its credentials were not tested: WeCom allows one connection, so a test would disconnect the gateway"


async def probe(
    account: str, config: WecomConfig, route: Callable[[str], Route], clock: Clock, *, alone: bool
) -> AccountReport:
    """Subscribe for a moment if `alone`, which disconnects another program; else query nothing."""
    if not alone:
        return AccountReport(notes=(UNTRIED,))
    report, began = AccountReport(), clock.monotonic()

    def subscribed() -> None:
        nonlocal report
        identity = BotIdentity(platform="wecom", bot_id=config.bot_id, username=config.bot_name)
        report = AccountReport(identity=identity, seconds=clock.monotonic() - began)
        limit.reschedule(asyncio.get_running_loop().time() + KICK_SECONDS)

    try:
        connection = await Connection.open(config, Network(route, account), _ignored, lambda: None, Timing())
        async with asyncio.timeout(None) as limit:
            await connection.serve(config, account, subscribed)
    except TimeoutError:
        return report  # the time is over, and no other program has taken the robot
    except Kicked:
        return replace(report, problems=(Problem.of(taken_over(account), config.url),))
    except ChannelError as error:
        return replace(report, problems=(Problem.of(error, config.url),))
    raise AssertionError("serving ends with an error")


def _ignored(callback: Callback) -> None:
    """Ignore a callback: without the probe no gateway would have received it either."""
