"""The real gateway with a Feishu app instead of the Telegram bot."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.flow.gateway import READY_SECONDS, World, merged
from tests.simulators.feishu import client as feishu_client
from tests.simulators.feishu.seen import ALICE, TEAM, TOPICS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.simulators.feishu.client import FeishuSimulator
    from tests.simulators.process import SimulatorProcess

CLOSED_SECONDS = 15.0


@dataclass
class FeishuWorld(World):
    """A world whose account is called "feishu". feishu: the app's side of the platform."""

    feishu: FeishuSimulator = field(kw_only=True)

    def config(self) -> dict[str, Any]:
        allowed = {
            "channels": {
                "telegram": None,
                "feishu": {
                    "app_id": self.feishu.app_id,
                    "app_secret": "$FEISHU_SECRET",
                    "domain": self.feishu.domain,
                },
            },
            "access": {
                "allow": [f"feishu:{self.feishu.open_id(ALICE)}"],
                "groups": {"allow": [f"feishu:{TEAM.id}", f"feishu:{TOPICS.id}"]},
            },
        }
        return merged(merged(super().config(), allowed), self.settings)

    @property
    def variables(self) -> dict[str, str]:
        return {"FEISHU_SECRET": self.feishu.app_secret} | super().variables

    async def _connected(self) -> None:
        await self.feishu.wait_connected(pings=1, timeout=READY_SECONDS)

    async def stop(self) -> int:
        """Stop as in World; no connection to the platform remains either."""
        code = await super().stop()
        await self.feishu.wait_connected(0, timeout=CLOSED_SECONDS)
        return code

    async def kill(self) -> None:
        """Kill as in World, until the platform has noticed, so that a later `start` waits for a new socket."""
        await super().kill()
        await self.feishu.wait_connected(0, timeout=CLOSED_SECONDS)


@asynccontextmanager
async def feishu_app(process: SimulatorProcess) -> AsyncIterator[FeishuSimulator]:
    """A new app in its own tenant."""
    async with feishu_client.connect(process) as client:
        yield await client.fresh_app()
