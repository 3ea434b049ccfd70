"""One process, one config, every platform at once, and two accounts of one of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.flow.feishu_world import feishu_app
from tests.flow.gateway import World, merged
from tests.flow.slack_world import slack_app
from tests.simulators.feishu import client as feishu_client
from tests.simulators.feishu.seen import ALICE as FEISHU_ALICE
from tests.simulators.process import SimulatorProcess
from tests.simulators.slack import client as slack_client
from tests.simulators.slack.seen import ALICE as SLACK_ALICE
from tests.simulators.telegram.seen import ALICE
from tests.simulators.wecom import client as wecom_client
from tests.simulators.wecom.seen import ALICE as WECOM_ALICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from tests.simulators.feishu.client import FeishuSimulator
    from tests.simulators.slack.client import SlackSimulator
    from tests.simulators.telegram.client import TelegramSimulator
    from tests.simulators.wecom.client import WecomSimulator

    Talk = Callable[[str], Coroutine[Any, Any, object]]

ACCOUNTS = ("telegram", "second", "slack", "feishu", "wecom")
FIRST_HALF = "The first half of the answer"
WHOLE = "The first half of the answer, and the second half."


@dataclass
class Everywhere(World):
    """second: another Telegram bot."""

    second: TelegramSimulator = field(kw_only=True)
    slack: SlackSimulator = field(kw_only=True)
    feishu: FeishuSimulator = field(kw_only=True)
    wecom: WecomSimulator = field(kw_only=True)

    def config(self) -> dict[str, Any]:
        accounts = {
            "second": {"type": "telegram", "token": "$SECOND_TOKEN", "base_url": self.second.root},
            "slack": {
                "bot_token": "$SLACK_BOT_TOKEN",
                "app_token": "$SLACK_APP_TOKEN",
                "base_url": self.slack.api_url,
            },
            "feishu": {"app_id": self.feishu.app_id, "app_secret": "$FEISHU_SECRET", "domain": self.feishu.domain},
            "wecom": {"bot_id": self.wecom.bot_id, "secret": "$WECOM_SECRET", "url": self.wecom.url},
        }
        return merged(super().config(), {"channels": accounts, "access": {"dm": "open", "i_accept_public": True}})

    @property
    def variables(self) -> dict[str, str]:
        return super().variables | {
            "SECOND_TOKEN": self.second.token,
            "SLACK_BOT_TOKEN": self.slack.bot_token,
            "SLACK_APP_TOKEN": self.slack.app_token,
            "FEISHU_SECRET": self.feishu.app_secret,
            "WECOM_SECRET": self.wecom.secret,
        }

    async def start(self, **environment: str) -> None:
        """Start the process and wait until every account says hello."""
        await super().start(**environment)
        for account in ACCOUNTS:
            await self.wait_for_log(f"{account} is connected as")

    async def say(self, text: str) -> None:
        """To every account at once."""
        await asyncio.gather(
            self.telegram.user_says(text, user=ALICE),
            self.second.user_says(text, user=ALICE),
            self.slack.user_says(text),
            self.feishu.user_says(text),
            self.wecom.says(text, WECOM_ALICE),
        )

    async def shows(self, text: str) -> None:
        """Wait until every account shows it."""
        await asyncio.gather(
            self.telegram.wait_for_text(ALICE, text),
            self.second.wait_for_text(ALICE, text),
            self.slack.wait_for_text(SLACK_ALICE, text),
            self.feishu.wait_for_text(FEISHU_ALICE, text),
            self.wecom.wait_for_text(WECOM_ALICE, text),
        )

    async def counted(self, text: str) -> list[int]:
        """In how many messages each account shows it."""
        return [
            sum(text in message.text for message in await self.telegram.bot_messages(ALICE)),
            sum(text in message.text for message in await self.second.bot_messages(ALICE)),
            sum(text in message.shown for message in await self.slack.bot_messages(SLACK_ALICE)),
            sum(text in message.text for message in await self.feishu.bot_messages(FEISHU_ALICE)),
            sum(text in shown for shown in await self.wecom.texts(WECOM_ALICE)),
        ]


@pytest.fixture
async def everywhere(world: World) -> AsyncIterator[Everywhere]:
    with (
        SimulatorProcess(slack_client.MODULE) as slack_process,
        SimulatorProcess(feishu_client.MODULE) as feishu_process,
        SimulatorProcess(wecom_client.MODULE) as wecom_process,
    ):
        async with (
            slack_app(slack_process) as slack,
            feishu_app(feishu_process) as feishu,
            wecom_client.connect(wecom_process) as wecom,
        ):
            second = await world.telegram.add_bot(f"8600000001:SECOND-bot-token-{'0' * 25}", username="second_bot")
            yield Everywhere(
                world.telegram, world.model, world.folder, second=second, slack=slack, feishu=feishu, wecom=wecom
            )


async def test_one_process_serves_all_of_them_at_once_and_again_after_a_kill(everywhere: Everywhere) -> None:
    async with everywhere:
        await everywhere.say("!pause half")
        await everywhere.shows(FIRST_HALF[:10])
        await everywhere.kill()
        await everywhere.start()
        await everywhere.model.release("half")
        await everywhere.shows(WHOLE)
        await everywhere.say("!say hello to everybody")
        await everywhere.shows("hello to everybody")
        assert await everywhere.counted(WHOLE) == [1] * len(ACCOUNTS)
        assert await everywhere.counted("hello to everybody") == [1] * len(ACCOUNTS)
        _, status = await everywhere.command("status")
        for account in ACCOUNTS:
            assert account in status


async def test_one_that_is_refused_holds_up_no_other(everywhere: Everywhere) -> None:
    everywhere.settings = {"access": {"admins": [f"telegram:{ALICE.id}"]}}
    async with everywhere:
        await everywhere.telegram.user_says("!say I know where to write to", user=ALICE)
        await everywhere.telegram.wait_for_text(ALICE, "I know where to write to")
    await everywhere.wecom.configure(secret="another one")
    await World.start(everywhere)
    try:
        told = await everywhere.telegram.wait_for_text(ALICE, "wecom", timeout=30)
        assert "secret" in told.text
        for account in ("second", "slack", "feishu"):
            await everywhere.wait_for_log(f"{account} is connected as")
        await everywhere.slack.user_says("!say still here")
        await everywhere.slack.wait_for_text(SLACK_ALICE, "still here")
    finally:
        await everywhere.stop()
