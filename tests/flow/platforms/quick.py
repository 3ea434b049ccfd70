"""`python -m tests.flow.platforms.quick run --config FILE`: the gateway, with WeCom accounts that ask for a sign of
life every second; on the other platforms the config, or the platform itself, sets that pace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.__main__ import main
from channels import registry
from channels.wecom.channel import WecomChannel
from channels.wecom.connection import Timing

if TYPE_CHECKING:
    from channels.base import ChannelPorts
    from channels.wecom.config import WecomConfig


def wecom(account: str, config: WecomConfig, ports: ChannelPorts) -> WecomChannel:
    return WecomChannel(account, config, ports, Timing(ping=1.0, pong=1.0))


if __name__ == "__main__":
    known = registry.PLATFORMS["wecom"]
    registry.PLATFORMS["wecom"] = registry.Platform(known.config, f"{__spec__.name}:{wecom.__name__}")
    main()
