"""The mode that kills the process at each crash window in turn, each time after it has become idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.torture.windows import WINDOWS
from tests.torture.world import StillAlive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.torture.campaign import Campaign
    from tests.torture.platform import Place
    from tests.torture.windows import Window


async def at_windows(campaign: Campaign, windows: Sequence[Window] = WINDOWS) -> None:
    """Kill at each window in turn, at least once each, until the scale is reached."""
    await campaign.start()
    while campaign.report.kills < campaign.scale.kills:
        for window in windows:
            if not await crash_at(campaign, window, campaign.chance.randint(1, window.passings)):
                return
        campaign.say(f"{campaign.report.kills}/{campaign.scale.kills} kills, {len(campaign.load.asked)} messages")


async def crash_at(campaign: Campaign, window: Window, passing: int, place: Place | None = None) -> bool:
    """Crash once and recover, in a random place unless one is given. Return False if the window was not reached: then
    continuing is pointless."""
    campaign.world.arm(f"{window.name}:{passing}")
    place = place or campaign.chance.choice(campaign.load.places)
    if window.stopped_after:
        asked = await campaign.load.say(window.stimulus[0], place, must_stop=True)
    else:
        for kind in window.stimulus * passing:
            asked = await campaign.load.say(kind, place, no_repeat=window.resumes)
    try:
        await campaign.dead()
    except StillAlive:
        campaign.report.blame("missed_windows", f"{window.name} ({window.seam}) was not reached")
        return False
    if window.stopped_after:
        await campaign.load.say("stop", place, person=asked.person)
    await campaign.load.say("say", campaign.chance.choice(campaign.load.places))
    again = campaign.chance.random() < campaign.scale.again
    await campaign.start(f"{window.name}:1" if again else "")
    await campaign.settle()
    campaign.world.disarm()
    return True
