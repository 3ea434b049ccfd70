"""The mode in which one gateway serves four platforms at once from one config, each with its own simulator."""

from __future__ import annotations

import contextlib
import itertools
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tests.flow.gateway import merged
from tests.simulators.feishu import client as feishu_client
from tests.simulators.process import SimulatorProcess
from tests.simulators.slack import client as slack_client
from tests.simulators.wecom import client as wecom_client
from tests.torture.accounts import Accounts, lifted
from tests.torture.at_windows import crash_at
from tests.torture.campaign import Campaign
from tests.torture.on_feishu import OnFeishu
from tests.torture.on_slack import OnSlack
from tests.torture.on_telegram import OnTelegram
from tests.torture.on_wecom import OnWecom
from tests.torture.report import Report
from tests.torture.storms import Disturbance, storm
from tests.torture.windows import ELSEWHERE, WINDOWS
from tests.torture.world import SETTINGS, TortureWorld

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.simulators.model.client import ModelSimulator
    from tests.simulators.telegram.client import TelegramSimulator
    from tests.torture.campaign import Scale
    from tests.torture.platform import Platform
    from tests.torture.windows import Window

PEOPLE, GROUPS = 2, 1
"""Per platform."""
DIRECTED = 0.5
"""Share of the kills at a window that a specific message reaches."""
AT_WINDOW = 0.3
"""Share of the other deaths for which a window is armed; if it is not reached in time, the kill is from outside."""


@dataclass
class EverywhereWorld(TortureWorld):
    """A world with all platforms; the accounts are named after them."""

    accounts: Accounts = field(kw_only=True)

    def config(self) -> dict[str, Any]:
        return merged(super().config(), {"channels": self.accounts.config()})

    @property
    def variables(self) -> dict[str, str]:
        return super().variables | self.accounts.variables()

    async def _launch(self, environment: dict[str, str]) -> asyncio.subprocess.Process:
        await self.accounts.wecom.before_start()
        return await super()._launch(environment)

    async def _receives(self, seconds: float) -> None:
        """Wait until all four are connected."""
        await super()._receives(seconds)
        await self.accounts.are_ready(seconds)


@contextlib.asynccontextmanager
async def everywhere(
    telegram: TelegramSimulator,
    model: ModelSimulator,
    folder: Path,
    *,
    seed: int,
    scale: Scale,
    adopt: bool = False,
    sabotage: str = "",
    mode: str = "platforms",
) -> AsyncIterator[Campaign]:
    """A campaign with a world that is not started yet, and three more simulators for its duration."""
    await model.reset()
    with (
        SimulatorProcess(slack_client.MODULE) as slack_process,
        SimulatorProcess(feishu_client.MODULE) as feishu_process,
        SimulatorProcess(wecom_client.MODULE) as wecom_process,
    ):
        async with (
            slack_client.connect(slack_process) as slack,
            feishu_client.connect(feishu_process) as feishu,
            wecom_client.connect(wecom_process) as wecom,
        ):
            accounts = Accounts(
                OnSlack.with_people(slack, PEOPLE, GROUPS),
                OnFeishu.with_people(feishu, PEOPLE, GROUPS),
                OnWecom.with_people(wecom, PEOPLE, GROUPS),
            )
            # As in SETTINGS: rate limits are not tested here.
            channels = {**lifted(200, 20), "telegram": {"adopt_placeholders": adopt}}
            settings = merged(SETTINGS, {"channels": channels})
            world = EverywhereWorld(
                await telegram.fresh_bot(), model, folder, settings, sabotage=sabotage, accounts=accounts
            )
            on_telegram = OnTelegram.with_people(world.telegram, PEOPLE, GROUPS, adopts=adopt)
            report = Report(mode, seed, adopted=adopt, folder=str(folder))
            platforms: list[Platform] = [on_telegram, accounts.slack, accounts.feishu, accounts.wecom]
            async with await Campaign.between(world, platforms, report, scale) as campaign:
                yield campaign


class Doubled(Disturbance):
    """Some events arrive twice; some processes die at a window, on the platform that reaches it first."""

    async def strike(self, campaign: Campaign) -> None:
        campaign.load.disorder = True
        if campaign.chance.random() < AT_WINDOW:
            window = campaign.chance.choice((*WINDOWS, *ELSEWHERE))
            campaign.world.arm(f"{window.name}:{campaign.chance.randint(1, window.passings)}")

    async def lift(self, campaign: Campaign) -> None:
        campaign.world.disarm()
        campaign.load.disorder = False


def windows_of(account: str) -> list[Window]:
    """The windows that a message on this platform passes, each with its stimulus."""
    found = [window for window in (*WINDOWS, *ELSEWHERE) if window.account in ("", account)]
    if account == "wecom":  # a /stop sent while no process is connected never arrives
        found = [window for window in found if not window.stopped_after]
    return [replace(window, stimulus=("longer",)) if "long" in window.stimulus else window for window in found]


async def kills_everywhere(campaign: Campaign) -> None:
    """SIGKILL at windows on one platform after another, then at random moments while people write on all of them."""
    turns = [(window, account) for account in campaign.load.platforms for window in windows_of(account)]
    campaign.chance.shuffle(turns)
    await campaign.start()
    for window, account in itertools.islice(itertools.cycle(turns), math.ceil(campaign.scale.kills * DIRECTED)):
        places = campaign.load.platforms[account].places
        if window.stopped_after:  # in a Slack channel each mention is a conversation, which only its thread can stop
            places = [place for place in places if not place.is_group]
        place = campaign.chance.choice(places)
        if not await crash_at(campaign, window, campaign.chance.randint(1, window.passings), place):
            return
        campaign.say(f"{campaign.report.kills}/{campaign.scale.kills} kills, {window.name} on {account}")
    await storm(campaign, Doubled())
