"""The real gateway with a WeCom robot instead of the Telegram bot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.flow import tidiness
from tests.flow.gateway import READY_SECONDS, World, merged
from tests.simulators.wecom.seen import ALICE, TEAM

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulators.wecom.client import WecomSimulator

ACCOUNT = "wecom"
ASKED = "!count 100\n!pause half"
BEGUN = "1 2 3 4 5 6 7 8 9 10"
"""The text visible by then: the last few characters are held back, as they might become part of a secret."""
WHOLE = "The first half of the answer, and the second half."


@dataclass
class WecomWorld(World):
    """A world whose account is called "wecom". wecom: the robot's side of the platform."""

    wecom: WecomSimulator = field(kw_only=True)

    def config(self) -> dict[str, Any]:
        robot = {
            "bot_id": self.wecom.bot_id,
            "secret": "$WECOM_SECRET",
            "bot_name": self.wecom.name,
            "url": self.wecom.url,
        }
        allowed = {
            "channels": {"telegram": None, ACCOUNT: robot},
            "access": {"allow": [f"wecom:{ALICE.id}"], "groups": {"allow": [f"wecom:{TEAM.id}"]}},
        }
        return merged(merged(super().config(), allowed), self.settings)

    @property
    def variables(self) -> dict[str, str]:
        return super().variables | {"WECOM_SECRET": self.wecom.secret}

    async def _connected(self) -> None:
        await self.wecom.wait_connected(timeout=READY_SECONDS)

    async def stop(self) -> int:
        """Stop as in World; no connection to the platform remains either."""
        code = await super().stop()
        await tidiness.all_closed(self.wecom.open_connections)
        return code

    async def kill(self) -> None:
        """Kill as in World, until the platform has noticed."""
        await super().kill()
        await self.wecom.wait_disconnected()

    @property
    def uploads(self) -> list[Path]:
        """The files from people that were accepted."""
        return sorted(self.data_dir.glob("threads/*/user-data/uploads/*"))
