"""The accounts of a config with every platform, for a gateway connected to four simulators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.torture.on_feishu import OnFeishu
    from tests.torture.on_slack import OnSlack
    from tests.torture.on_wecom import OnWecom


@dataclass(frozen=True)
class Accounts:
    """The accounts other than Telegram's, each named after its platform."""

    slack: OnSlack
    feishu: OnFeishu
    wecom: OnWecom

    def config(self) -> dict[str, Any]:
        """The content of `channels`."""
        slack, feishu, wecom = self.slack.simulator, self.feishu.simulator, self.wecom.simulator
        return {
            "slack": {
                "bot_token": "$SLACK_BOT_TOKEN",
                "app_token": "$SLACK_APP_TOKEN",
                "base_url": slack.api_url,
            },
            "feishu": {"app_id": feishu.app_id, "app_secret": "$FEISHU_SECRET", "domain": feishu.domain},
            "wecom": {"bot_id": wecom.bot_id, "secret": "$WECOM_SECRET", "bot_name": wecom.name, "url": wecom.url},
        }

    def variables(self) -> dict[str, str]:
        """The secrets that the config refers to."""
        return {
            "SLACK_BOT_TOKEN": self.slack.simulator.bot_token,
            "SLACK_APP_TOKEN": self.slack.simulator.app_token,
            "FEISHU_SECRET": self.feishu.simulator.app_secret,
            "WECOM_SECRET": self.wecom.simulator.secret,
        }

    async def are_ready(self, timeout: float) -> None:
        """Wait until the newest process is connected to all three. Raises AssertionError."""
        for platform in (self.slack, self.feishu, self.wecom):
            await platform.is_ready(timeout)


def lifted(per_second: float, per_chat: float) -> dict[str, Any]:
    """Settings of `channels` with rate limits too high to matter."""
    fast = {"per_second": per_second, "per_chat_per_second": per_chat}
    a_minute = per_chat * 60
    return {
        "slack": {"rate": {**fast, "edits_per_minute": a_minute * 10}},
        "feishu": {"rate": {**fast, "per_group_per_minute": a_minute, "edits_per_minute": a_minute * 10}},
        "wecom": {"rate": {**fast, "per_chat_per_minute": a_minute, "per_chat_per_hour": a_minute * 60}},
    }
