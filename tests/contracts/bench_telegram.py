"""Telegram, against its simulator."""

from __future__ import annotations

import itertools
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from channels.message import Address
from channels.telegram.channel import TelegramChannel
from channels.telegram.config import TelegramConfig
from tests.contracts.bench import Bench, Listener, Refusal, Seen, Stage
from tests.simulators.telegram import faults
from tests.simulators.telegram.client import MODULE, connect
from tests.simulators.telegram.seen import ALICE, FORUM, TEAM

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.contracts.bench import MakeBench, Simulators, Told
    from tests.simulators.telegram.client import TelegramSimulator


def _send(reason: str, told: Told = "outside", times: int = 1) -> Refusal[TelegramSimulator]:
    fault = faults.bad_request(reason)
    return Refusal(reason, "send", lambda bot: bot.fail("sendMessage", fault, times, chat=FORUM), told)


def _edit(fault: faults.Fault, told: Told = "all", times: int = 20) -> Refusal[TelegramSimulator]:
    name = f"{fault.description} to an edit"
    return Refusal(name, "edit", lambda bot: bot.fail("editMessageText", fault, times, chat=FORUM), told)


def _file(fault: faults.Fault) -> Refusal[TelegramSimulator]:
    return Refusal(
        f"{fault.description} to a file", "file", lambda bot: bot.fail("sendDocument", fault, chat=FORUM), "no file"
    )


REFUSALS: tuple[Refusal[TelegramSimulator], ...] = (
    _send("TOPIC_CLOSED"),
    _send("message thread not found"),
    _send("not enough rights to send text messages to the chat"),
    _send("message is too long", "no words", times=2),
    Refusal("401", "send", lambda bot: bot.fail("sendMessage", faults.unauthorized(), chat=FORUM)),
    Refusal(
        "kicked",
        "send",
        lambda bot: bot.fail("sendMessage", faults.error(403, "Forbidden: bot was kicked"), chat=FORUM),
        "nothing",
    ),
    _edit(faults.bad_request("message can't be edited")),
    _edit(faults.bad_request("message to edit not found"), times=1),
    _edit(faults.bad_request("TOPIC_CLOSED")),
    _edit(faults.unauthorized(), times=1),
    _file(faults.bad_request("not enough rights to send documents to the chat")),
    _file(faults.bad_request("TOPIC_CLOSED")),
    _file(faults.error(403, "Forbidden: CHAT_SEND_DOCS_FORBIDDEN")),
    Refusal(
        "BUTTON_DATA_INVALID",
        "buttons",
        lambda bot: bot.fail("sendMessage", faults.bad_request("BUTTON_DATA_INVALID"), chat=FORUM),
        "numbers",
    ),
)

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

    refusals = REFUSALS

    @property
    def platform(self) -> TelegramSimulator:
        return self.simulator

    async def stage(self) -> Stage:
        await self.simulator.set_limits(enforce=False)
        await self.simulator.fresh_bot()  # and the groups of other tests are forgotten
        await self.simulator.add_chat(FORUM, threads=[7, 8])
        await self.simulator.add_chat(TEAM)
        topics = [Address(account="telegram", chat=str(FORUM.id), topic=topic, kind="group") for topic in ("7", "8")]
        team = Address(account="telegram", chat=str(TEAM.id), kind="group")
        return Stage(topics[0], (topics[1], team, self.dm))

    async def shown(self, address: Address) -> list[str]:
        room = {str(FORUM.id): FORUM, str(TEAM.id): TEAM}.get(address.chat, ALICE)
        return [message.text for message in await self.simulator.bot_messages(room)]

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
