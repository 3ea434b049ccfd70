"""The real gateway with a Slack app instead of the Telegram bot."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.flow.gateway import READY_SECONDS, World, merged
from tests.simulators.slack import client as slack_client
from tests.simulators.slack.seen import ALICE, BOB, TEAM

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.simulators.process import SimulatorProcess
    from tests.simulators.slack.client import SlackSimulator
    from tests.simulators.slack.seen import Person

CLOSED_SECONDS = 15.0


@dataclass
class SlackWorld(World):
    """A world whose account is called "slack". slack: the app's side of the platform."""

    slack: SlackSimulator = field(kw_only=True)

    def config(self) -> dict[str, Any]:
        allowed = {
            "channels": {
                "telegram": None,
                "slack": {
                    "bot_token": "$SLACK_BOT_TOKEN",
                    "app_token": "$SLACK_APP_TOKEN",
                    "base_url": self.slack.api_url,
                },
            },
            "access": {
                "allow": [self.person(ALICE), self.person(BOB)],
                "groups": {"allow": [f"slack:{TEAM.id}"]},
            },
        }
        return merged(merged(super().config(), allowed), self.settings)

    def person(self, person: Person) -> str:
        """The person's id in the config."""
        return f"slack:{person.team_id or self.slack.team_id}/{person.id}"

    @property
    def variables(self) -> dict[str, str]:
        tokens = {"SLACK_BOT_TOKEN": self.slack.bot_token, "SLACK_APP_TOKEN": self.slack.app_token}
        return super().variables | tokens

    async def _connected(self) -> None:
        await self.slack.wait_connected(timeout=READY_SECONDS)

    async def stop(self) -> int:
        """Stop as in World; no connection to the platform remains either."""
        code = await super().stop()
        await self.slack.wait_connected(0, timeout=CLOSED_SECONDS)
        return code

    async def kill(self) -> None:
        """Kill as in World, until the platform has noticed, so that a later `start` waits for a new socket."""
        await super().kill()
        await self.slack.wait_connected(0, timeout=CLOSED_SECONDS)


@asynccontextmanager
async def slack_app(process: SimulatorProcess) -> AsyncIterator[SlackSimulator]:
    """A new app in its own workspace; at the end its actions must not have caused problems."""
    async with slack_client.connect(process) as client:
        app = await client.fresh_app()
        await app.add_chat(TEAM, people=[ALICE, BOB])
        # Like Slack's retries, but without waits of minutes.
        await app.set_timing(retry_delays=(0.0, 1.0, 3.0))
        yield app
