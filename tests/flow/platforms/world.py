"""One gateway with an account of every platform, and two of one; for the tests that hold on all of them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.flow.gateway import World, merged
from tests.flow.platforms.feishu import Feishu
from tests.flow.platforms.slack import Slack
from tests.flow.platforms.telegram import Telegram
from tests.flow.platforms.wecom import Wecom
from tests.simulators.feishu import client as feishu_client
from tests.simulators.process import SimulatorProcess
from tests.simulators.slack import client as slack_client
from tests.simulators.telegram import client as telegram_client
from tests.simulators.wecom import client as wecom_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from pathlib import Path

    from tests.flow.platforms.base import Platform
    from tests.simulators.model.client import ModelSimulator

PLATFORMS = ("telegram", "slack", "feishu", "wecom")
SECOND = "second"
"""Another Telegram bot."""
_MODULES = {
    "telegram": telegram_client.MODULE,
    "slack": slack_client.MODULE,
    "feishu": feishu_client.MODULE,
    "wecom": wecom_client.MODULE,
}


@dataclass
class Everywhere(World):
    """platforms: by account, in the config's order."""

    platforms: Mapping[str, Platform] = field(default_factory=dict)

    def config(self) -> dict[str, Any]:
        accounts = {account: platform.settings for account, platform in self.platforms.items()}
        base = super().config() | {"channels": accounts, "access": {}}
        return merged(base, self.settings)

    @property
    def variables(self) -> dict[str, str]:
        secrets: dict[str, str] = {}
        for platform in self.platforms.values():
            secrets |= platform.variables
        return secrets | super().variables

    async def _connected(self) -> None:
        """Every account has said hello, and its platform knows of it."""
        await asyncio.gather(*(platform.connected() for platform in self.platforms.values()))
        for account in self.platforms:
            await self.wait_for_log(f"{account} is connected as")

    async def stop(self) -> int:
        code = await super().stop()
        await self._closed()
        return code

    async def kill(self) -> None:
        await super().kill()
        await self._closed()

    async def _closed(self) -> None:
        await asyncio.gather(*(platform.closed() for platform in self.platforms.values()))


@contextmanager
def simulators(telegram: SimulatorProcess) -> Iterator[dict[str, SimulatorProcess]]:
    """A process for each platform; that of Telegram is there already."""
    others = {name: SimulatorProcess(module) for name, module in _MODULES.items() if name != "telegram"}
    with others["slack"], others["feishu"], others["wecom"]:
        yield {"telegram": telegram, **others}


@asynccontextmanager
async def everywhere(
    processes: Mapping[str, SimulatorProcess], model: ModelSimulator, folder: Path
) -> AsyncIterator[Everywhere]:
    """A configured gateway that is not started yet; nobody has access, and no other test knows its bots."""
    async with (
        telegram_client.connect(processes["telegram"]) as telegram,
        slack_client.connect(processes["slack"]) as slack,
        feishu_client.connect(processes["feishu"]) as feishu,
        wecom_client.connect(processes["wecom"]) as wecom,
    ):
        bot = await telegram.fresh_bot()
        second = await telegram.add_bot(f"{bot.bot_id}9:SECOND-bot-token-{'0' * 25}", username="second_bot")
        await slack.set_timing(retry_delays=(0.0, 1.0, 3.0))  # as Slack repeats events, but nobody waits for minutes
        accounts: tuple[Platform, ...] = (
            Telegram(bot),
            Slack(slack),
            Feishu(feishu),
            Wecom(wecom),
            Telegram(second, account=SECOND),
        )
        yield Everywhere(bot, model, folder, platforms={platform.account: platform for platform in accounts})
