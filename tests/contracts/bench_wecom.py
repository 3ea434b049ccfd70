"""WeCom, against its simulator."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from channels.message import Address
from channels.wecom import frames
from channels.wecom.channel import WecomChannel
from channels.wecom.config import WecomConfig
from channels.wecom.frames import PUSH, UPLOAD_BEGIN
from tests.contracts.bench import Bench, Listener, Refusal, Seen, Stage
from tests.simulators.wecom import faults
from tests.simulators.wecom.client import MODULE, connect
from tests.simulators.wecom.errors import BAD_PARAM
from tests.simulators.wecom.seen import ALICE, BOB, TEAM

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.contracts.bench import MakeBench, Simulators, Step, Told
    from tests.simulators.wecom.client import WecomSimulator
    from tests.simulators.wecom.seen import SeenMessage


def _push(name: str, step: Step, times: int, told: Told) -> Refusal[WecomSimulator]:
    fault = faults.error(BAD_PARAM)
    return Refusal(name, step, lambda robot: robot.fail(PUSH, fault, times), told, first=True)


REFUSALS: tuple[Refusal[WecomSimulator], ...] = (
    _push("40058 to a message", "send", 2, "no words"),
    _push("40058 to a card", "buttons", 2, "numbers"),
    Refusal("thrown out", "send", lambda robot: robot.throw_out(TEAM), "nothing"),
    Refusal("40058 to an upload", "file", lambda robot: robot.fail(UPLOAD_BEGIN, faults.error(BAD_PARAM)), "no file"),
)


@dataclass
class WecomBench:
    """question: the person's message that can be answered, since WeCom streams nothing else."""

    config: WecomConfig
    listener: Listener
    simulator: WecomSimulator
    question: str
    dm: Address = field(default_factory=lambda: Address(account="wecom", chat=ALICE.id))

    def __post_init__(self) -> None:
        self.channel = WecomChannel("wecom", self.config, self.listener.ports())

    async def seen(self) -> list[Seen]:
        return [
            Seen(_id(message), message.text, tuple(message.labels), message.file is not None)
            for message in await self.simulator.bot_messages(ALICE)
        ]

    async def says(self, text: str) -> None:
        await self.simulator.says(text)

    refusals = REFUSALS

    @property
    def platform(self) -> WecomSimulator:
        return self.simulator

    async def stage(self) -> Stage:
        await self.simulator.says("hello", room=TEAM)
        await self.simulator.says("hello", BOB)
        team = Address(account="wecom", chat=TEAM.id, kind="group")
        return Stage(team, (self.dm, Address(account="wecom", chat=BOB.id)))

    async def shown(self, address: Address) -> list[str]:
        return await self.simulator.texts(TEAM if address.kind == "group" else BOB if address.chat == BOB.id else ALICE)

    async def restart(self) -> None:
        await self.channel.close()
        self.channel = WecomChannel("wecom", self.config, self.listener.ports())


def _id(message: SeenMessage) -> str:
    """What the adapter calls it; a pushed text has no id of its own, so the adapter's is in its frame."""
    return message.stream_id or message.task_id or message.req_id.removeprefix("aibot_send_msg_").partition("_")[0]


def wecom(**settings: Any) -> MakeBench:
    @asynccontextmanager
    async def bench(folder: Path, simulators: Simulators) -> AsyncIterator[Bench]:
        async with connect(simulators.running(MODULE)) as robot:
            said = await robot.says("hello")
            config = WecomConfig.model_validate(
                {"bot_id": robot.bot_id, "secret": robot.secret, "url": robot.url, **settings}
            )
            made = WecomBench(config, Listener(), robot, frames.message_id(said.msgid, said.req_id))
            yield made
            await made.channel.close()

    return bench
