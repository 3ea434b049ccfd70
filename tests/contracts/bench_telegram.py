"""Telegram, against its simulator."""

from __future__ import annotations

import itertools
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from channels.message import Address
from channels.telegram.channel import TelegramChannel
from channels.telegram.config import TelegramConfig
from tests.contracts.bench import Bench, Listener, Seen
from tests.simulators.telegram.client import MODULE, connect
from tests.simulators.telegram.seen import ALICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.contracts.bench import MakeBench, Simulators
    from tests.simulators.telegram.client import TelegramSimulator

_bots = itertools.count(8_500_000_001)


@dataclass
class TelegramBench:
    config: TelegramConfig
    listener: Listener
    simulator: TelegramSimulator
    dm: Address = field(default_factory=lambda: Address(account="telegram", chat=str(ALICE.id)))

    def __post_init__(self) -> None:
        self.channel = TelegramChannel("telegram", self.config, self.listener.ports())

    async def seen(self) -> list[Seen]:
        return [
            Seen(str(m.message_id), m.text, tuple(button["text"] for button in m.buttons), bool(m.files))
            for m in await self.simulator.bot_messages(ALICE)
        ]

    async def says(self, text: str) -> None:
        await self.simulator.user_says(text)

    async def restart(self) -> None:
        await self.channel.close()
        self.channel = TelegramChannel("telegram", self.config, self.listener.ports())


def telegram(**settings: Any) -> MakeBench:
    @asynccontextmanager
    async def bench(folder: Path, simulators: Simulators) -> AsyncIterator[Bench]:
        async with connect(simulators.running(MODULE)) as client:
            bot = await client.add_bot(f"{next(_bots)}:CONTRACT-bot-token-{'0' * 25}")
            await bot.user_says("/start")
            config = TelegramConfig.model_validate({"token": bot.token, "base_url": bot.root, **settings})
            made = TelegramBench(config, Listener(), bot)
            yield made
            await made.channel.close()

    return bench
