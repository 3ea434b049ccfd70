"""The mode that alternates between the others: each life of the process has a different problem."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from tests.torture.bad_platform import BadPlatform
from tests.torture.machine import FullDisk, JumpingClock, ReadOnly, small_disk
from tests.torture.storms import Disturbance, storm

if TYPE_CHECKING:
    from tests.torture.campaign import Campaign


class Freeze(Disturbance):
    """A short pause that the process does not notice."""

    async def strike(self, campaign: Campaign) -> None:
        await campaign.live()
        campaign.world.freeze()
        await asyncio.sleep(min(1.0, campaign.scale.frozen))
        campaign.world.thaw()


class Turns(Disturbance):
    """Several disturbances in turn, one at a time."""

    def __init__(self, *several: Disturbance) -> None:
        self._several = several
        self._next = itertools.cycle(several)

    async def strike(self, campaign: Campaign) -> None:
        await self.lift(campaign)
        await next(self._next).strike(campaign)

    async def lift(self, campaign: Campaign) -> None:
        for one in self._several:
            await one.lift(campaign)


async def mixed(campaign: Campaign) -> None:
    """Kill under all disturbances in turn."""
    campaign.patient = True
    with small_disk(campaign.world.data_dir, campaign.scale.kills):
        try:
            await storm(campaign, Turns(FullDisk(), BadPlatform(), ReadOnly(), JumpingClock(), Freeze(), Disturbance()))
            await campaign.finish()
        finally:
            await campaign.world.bury()
