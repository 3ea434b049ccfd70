"""Slack, against its simulator."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from channels.message import Address
from channels.slack.channel import SlackChannel
from channels.slack.config import SlackConfig
from tests.contracts.bench import Bench, Listener, Seen
from tests.simulators.slack.client import MODULE, connect
from tests.simulators.slack.seen import ALICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.contracts.bench import MakeBench, Simulators
    from tests.simulators.slack.client import SlackSimulator


UNDER_WAY = "[in_progress] …\n"
"""What an open stream shows above its text: the task by which it is found."""


@dataclass
class SlackBench:
    config: SlackConfig
    listener: Listener
    simulator: SlackSimulator
    thread: str | None
    dm: Address = field(init=False)

    def __post_init__(self) -> None:
        self.dm = Address(account="slack", chat=self.simulator.channel_id(ALICE), topic=self.thread)
        self.channel = SlackChannel("slack", self.config, self.listener.ports())

    async def seen(self) -> list[Seen]:
        return [
            Seen(
                message.files[0]["id"] if message.files else message.ts,
                message.shown.removeprefix(UNDER_WAY),
                tuple(element["text"]["text"] for element in message.elements),
                bool(message.files),
            )
            for message in await self.simulator.bot_messages(ALICE)
        ]

    async def says(self, text: str) -> None:
        await self.simulator.user_says(text, thread=self.thread)

    async def restart(self) -> None:
        await self.channel.close()
        self.channel = SlackChannel("slack", self.config, self.listener.ports())


def slack(**settings: Any) -> MakeBench:
    @asynccontextmanager
    async def bench(folder: Path, simulators: Simulators) -> AsyncIterator[Bench]:
        async with connect(simulators.running(MODULE)) as app:
            hello = await app.user_says("hello", silent=True)
            config = SlackConfig.model_validate(
                {"bot_token": app.bot_token, "app_token": app.app_token, "base_url": app.api_url, **settings}
            )
            # Slack streams in threads only.
            made = SlackBench(config, Listener(), app, hello.ts if config.streaming == "stream" else None)
            yield made
            await made.channel.close()

    return bench
