"""Feishu, against its simulator."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from channels.feishu.channel import FeishuChannel
from channels.feishu.config import FeishuConfig
from channels.feishu.lookup import MessageId
from channels.message import Address
from tests.contracts.bench import Bench, Listener, Refusal, Seen, Stage
from tests.simulators.feishu import faults
from tests.simulators.feishu.client import MODULE, connect
from tests.simulators.feishu.seen import ALICE, TEAM, TOPICS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.contracts.bench import MakeBench, Simulators, Told
    from tests.simulators.feishu.client import FeishuSimulator
    from tests.simulators.feishu.seen import SeenMessage

_FILES = ("image", "file", "audio", "media")


def _send(fault: faults.Fault, told: Told = "all", times: int = 1) -> Refusal[FeishuSimulator]:
    return Refusal(
        f"{fault.code} to an answer",
        "send",
        lambda app: app.fail("im.message.reply", fault, times, chat=TOPICS),
        told,
    )


def _edit(fault: faults.Fault, times: int = 20) -> Refusal[FeishuSimulator]:
    return Refusal(f"{fault.code} to a growing card", "edit", lambda app: app.fail("cardkit.*", fault, times))


REFUSALS: tuple[Refusal[FeishuSimulator], ...] = (
    _send(faults.error(230035), "outside"),
    _send(faults.error(230027), "outside"),
    _send(faults.error(230002), "nothing"),
    _send(faults.audit_failed(), "no words", times=6),
    _send(faults.missing_scope()),
    _send(faults.error(10014, "app secret invalid")),
    _send(faults.error(230011, "The message is recalled.")),
    _edit(faults.error(300311)),
    _edit(faults.error(200750)),
    _edit(faults.missing_scope("cardkit:card:write")),
    _edit(faults.error(10014, "app secret invalid"), times=1),
    Refusal(
        "230099 to a card with buttons",
        "buttons",
        lambda app: app.fail("im.message.reply", faults.error(230099, "ErrCode: 200621; ErrMsg: card"), chat=TOPICS),
        "numbers",
    ),
    Refusal(
        "99991672 to a file",
        "file",
        lambda app: app.fail("im.file.create", faults.missing_scope("im:resource")),
        "no file",
    ),
)


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

    refusals = REFUSALS

    @property
    def platform(self) -> FeishuSimulator:
        return self.simulator

    async def stage(self) -> Stage:
        said = [await self.simulator.group_says(f"@antler {n}", chat=TOPICS, silent=True) for n in ("one", "two")]
        affected, other = (
            Address(account="feishu", chat=TOPICS.id, topic=topic.thread_id, kind="group") for topic in said
        )
        await self.simulator.add_chat(TEAM)
        team = Address(account="feishu", chat=TEAM.id, kind="group")
        return Stage(affected, (other, team, self.dm), said[0].message_id)

    async def shown(self, address: Address) -> list[str]:
        place = {TOPICS.id: TOPICS, TEAM.id: TEAM}.get(address.chat, ALICE)
        return [message.text for message in await self.simulator.bot_messages(place)]

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
