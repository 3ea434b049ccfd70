"""The mode in which no process lives long: a restart storm while the agent runs commands. No interrupted run may be
blamed for the deaths."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bot.runs.driving import QUIET_SECONDS
from tests.torture.commands import judge_commands, prepare_commands

if TYPE_CHECKING:
    from tests.torture.campaign import Campaign

IN_A_STORM = {"bash": 26, "file": 8, "tool": 10, "say": 24, "stream": 18, "long": 4, "status": 4, "stop": 3, "new": 3}
UPTIME = (0.2, 2.4)
"""Range of seconds that a process lives in a restart storm."""
UNHURRIED = 0.6
"""Average seconds between two messages in a restart storm."""
LULL = 100
"""Kills in a restart storm between two pauses."""
BACKLOG_SECONDS = 2.5
"""Most seconds per message after a storm before the backlog counts as stuck."""


async def restart_storm(campaign: Campaign) -> None:
    """Kill each process before it has lived for three seconds, counted from its first poll for every second process;
    a third of the messages run a command. Raises NotPossible."""
    prepare_commands(campaign, IN_A_STORM)
    campaign.world.quiet = campaign.scale.quiet
    while campaign.report.kills < campaign.scale.kills:
        if campaign.report.kills:
            await campaign.kill()  # the process that survived the pause
        lull = min(campaign.report.kills + LULL, campaign.scale.kills)
        async with campaign.talking(UNHURRIED):
            while campaign.report.kills < lull:
                await _live_shortly(campaign, receives=campaign.report.kills % 2 == 1)
        await campaign.start()
        await campaign.settle(BACKLOG_SECONDS * len(campaign.load.asked) + 4 * QUIET_SECONDS)
        campaign.say(f"{campaign.report.kills}/{campaign.scale.kills} kills, {len(campaign.load.asked)} messages")
    await campaign.finish()
    await judge_commands(campaign)


async def _live_shortly(campaign: Campaign, *, receives: bool) -> None:
    await (campaign.start() if receives else campaign.launch())
    await asyncio.sleep(campaign.chance.uniform(*UPTIME))
    await campaign.kill()
