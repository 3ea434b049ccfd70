"""The mode in which the platform misbehaves as well: rate limits, errors, lost responses, updates out of order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulators.telegram import faults
from tests.torture.storms import Disturbance, storm

if TYPE_CHECKING:
    from tests.simulators.telegram.faults import Fault
    from tests.torture.campaign import Campaign

SENDS = ("sendMessage", "editMessageText")
WAVES: dict[str, tuple[Fault, int]] = {
    "429": (faults.flood(1), 4),
    "502": (faults.bad_gateway(), 3),
    "502 after success": (faults.bad_gateway(apply=True), 2),
    "reset": (faults.reset(), 3),
    "reset after success": (faults.reset(apply=True), 2),
    "garbage after success": (faults.garbage(apply=True), 2),
    "slow": (faults.slow(0.5), 4),
}
"""Fault, and the number of the next visible calls that it hits."""
POLL_WAVES: dict[str, tuple[Fault, int]] = {
    "poll 429": (faults.flood(1), 1),
    "poll 502": (faults.bad_gateway(), 2),
    "poll answer lost": (faults.reset(apply=True), 2),
    "poll garbage": (faults.garbage(apply=True), 2),
}
LONGER_THAN_PATIENCE = 25.0
"""Seconds; the client abandons a call after 20."""
SLOW_SHARE = 0.1


class BadPlatform(Disturbance):
    """Waves of failing calls. Lost poll responses and updates out of order alternate: the simulator cannot know which
    of those updates were received if the response that contained them was lost."""

    def __init__(self) -> None:
        self.struck: dict[str, int] = {}
        self._disorder = False

    async def strike(self, campaign: Campaign) -> None:
        telegram, chance = campaign.world.telegram, campaign.chance
        for name in chance.sample(list(WAVES), 2):
            fault, times = WAVES[name]
            await telegram.fail(chance.choice(SENDS), fault, times, skip=chance.randint(0, 3))
            self._count(name)
        if campaign.scale.slow_faults and chance.random() < SLOW_SHARE:
            await telegram.fail(chance.choice(SENDS), faults.apply_then_hang(LONGER_THAN_PATIENCE))
            self._count("time-out after success")
        campaign.load.disorder = self._disorder
        if self._disorder:
            self._count("doubled and reordered updates")
            return
        name = chance.choice(list(POLL_WAVES))
        fault, times = POLL_WAVES[name]
        await telegram.fail("getUpdates", fault, times, skip=chance.randint(0, 3))
        self._count(name)

    async def lift(self, campaign: Campaign) -> None:
        await campaign.world.telegram.clear_faults()
        campaign.load.disorder = False
        self._disorder = not self._disorder

    def _count(self, name: str) -> None:
        self.struck[name] = self.struck.get(name, 0) + 1


async def bad_platform(campaign: Campaign) -> None:
    """Kills under waves of faults."""
    platform = BadPlatform()
    await storm(campaign, platform)
    campaign.report.note(f"waves: {platform.struck}")
