"""Feishu, against its simulator."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from channels.feishu.channel import FeishuChannel
from channels.feishu.config import FeishuConfig
from channels.feishu.ids import MessageId
from channels.message import Address
from tests.contracts.bench import Bench, Listener, Seen
from tests.simulators.feishu.client import MODULE, connect
from tests.simulators.feishu.seen import ALICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.contracts.bench import MakeBench, Simulators
    from tests.simulators.feishu.client import FeishuSimulator
    from tests.simulators.feishu.seen import SeenMessage

_FILES = ("image", "file", "audio", "media")


@dataclass
class FeishuBench:
    config: FeishuConfig
    listener: Listener
    simulator: FeishuSimulator
    dm: Address

    def __post_init__(self) -> None:
        self.channel = FeishuChannel("feishu", self.config, self.listener.ports())

    async def seen(self) -> list[Seen]:
        return [_seen(message) for message in await self.simulator.bot_messages(ALICE)]

    async def says(self, text: str) -> None:
        await self.simulator.user_says(text)

    async def restart(self) -> None:
        await self.channel.close()
        self.channel = FeishuChannel("feishu", self.config, self.listener.ports())


def _seen(message: SeenMessage) -> Seen:
    """As the gateway knows it: its id also says what it is."""
    form = message.msg_type if message.msg_type in ("text", "post") else "card"
    form = "file" if message.msg_type in _FILES else form
    message_id = str(MessageId(message.message_id, card_id=message.card_id or "", form=form))
    return Seen(message_id, message.text, tuple(message.labels), form == "file")


def feishu(**settings: Any) -> MakeBench:
    @asynccontextmanager
    async def bench(folder: Path, simulators: Simulators) -> AsyncIterator[Bench]:
        async with connect(simulators.running(MODULE)) as client:
            app = await client.fresh_app()
            await app.set_limits(enforce=False)
            said = await app.user_says("/start", silent=True)
            credentials = {"app_id": app.app_id, "app_secret": app.app_secret, "domain": app.domain}
            config = FeishuConfig.model_validate({**credentials, **settings})
            made = FeishuBench(config, Listener(), app, Address(account="feishu", chat=said.chat_id))
            yield made
            await made.channel.close()

    return bench
