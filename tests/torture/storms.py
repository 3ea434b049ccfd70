"""The modes that repeatedly kill the process under load, possibly with another disturbance."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.torture.campaign import Campaign

PLANNED = 0.1
"""Share of deaths that are planned stops."""
EARLY = 0.15
"""Share of deaths before the process polls."""
RESTED = 2
"""Number of lives after which one lasts until everything is answered: runs that were active at more deaths would wait
for a quiet process, but these modes test work under load."""


class Disturbance:
    """A disturbance in addition to the kills; this one does nothing. Modes override what they need."""

    async def strike(self, campaign: Campaign) -> None:
        """Begin the disturbance."""

    async def lift(self, campaign: Campaign) -> None:
        """End the disturbance."""


async def storm(campaign: Campaign, disturbance: Disturbance) -> None:
    """Kill as often as the scale says."""
    lives = 0
    while campaign.report.kills < campaign.scale.kills:
        async with campaign.talking():
            await _live_and_die(campaign, disturbance)
        lives += 1
        if lives % RESTED == 0:
            await disturbance.lift(campaign)
            if not campaign.world.alive:
                await campaign.start()
            await campaign.settle()
        campaign.say(f"{campaign.report.kills}/{campaign.scale.kills} kills, {len(campaign.load.asked)} messages")
    await disturbance.lift(campaign)


async def _live_and_die(campaign: Campaign, disturbance: Disturbance) -> None:
    chance = campaign.chance
    if not campaign.world.alive:
        if chance.random() < EARLY:
            await campaign.launch()
            await asyncio.sleep(chance.uniform(0.1, 1.5))
            return await campaign.kill()
        if not await campaign.start():
            return await disturbance.lift(campaign)
    await disturbance.strike(campaign)
    await campaign.live()
    if chance.random() < PLANNED and not campaign.disturbed:
        await campaign.stop()
    else:
        await campaign.kill()
    await asyncio.sleep(chance.uniform(0.0, 0.4))
    return None


async def random_kills(campaign: Campaign) -> None:
    """Kill at random moments, without any other disturbance."""
    await storm(campaign, Disturbance())
