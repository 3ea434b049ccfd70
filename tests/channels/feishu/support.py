"""What the adapter's tests share: a channel to an app of the simulator."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from channels.feishu.channel import FeishuChannel
from channels.feishu.config import FeishuConfig
from channels.message import Address, OutboundMessage
from tests.channels.gateway import ListeningGateway
from tests.simulators.feishu.seen import ALICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from channels.base import Part
    from tests.simulators.feishu.client import FeishuSimulator


@dataclass
class Bench:
    """One app on the simulator with its channel."""

    feishu: FeishuSimulator
    gateway: ListeningGateway
    channel: FeishuChannel

    @property
    def dm(self) -> Address:
        return Address(account="feishu", chat=self.feishu.chat_id(ALICE))

    def part(self, text: str, **more: Any) -> Part:
        """The only part of a finished answer with this text; `final=False` for one that grows."""
        (part,) = self.channel.layout(OutboundMessage(text=text, **({"final": True} | more)))
        return part

    async def methods(self) -> list[str]:
        """The calls so far that changed something."""
        return [record.method for record in await self.feishu.records() if record.http_method != "GET"]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        """The channel receives inside this block; its socket is open."""
        task = asyncio.create_task(self.channel.run(self.gateway.hello))
        try:
            await self.feishu.wait_connected(pings=1)
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def config_for(feishu: FeishuSimulator, **settings: Any) -> FeishuConfig:
    credentials = {"app_id": feishu.app_id, "app_secret": feishu.app_secret, "domain": feishu.domain}
    return FeishuConfig.model_validate({**credentials, **settings})


def bench_for(feishu: FeishuSimulator, gateway: ListeningGateway | None = None, **settings: Any) -> Bench:
    listening = gateway or ListeningGateway()
    return Bench(feishu, listening, FeishuChannel("feishu", config_for(feishu, **settings), listening.ports()))
