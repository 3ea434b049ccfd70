"""Slack, against its simulator."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from channels.message import Address
from channels.slack.channel import SlackChannel
from channels.slack.config import SlackConfig
from tests.contracts.bench import Bench, Listener, Refusal, Seen, Stage
from tests.simulators.slack import faults
from tests.simulators.slack.client import MODULE, connect
from tests.simulators.slack.seen import ALICE, TEAM

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.contracts.bench import MakeBench, Simulators, Told
    from tests.simulators.slack.client import SlackSimulator


UNDER_WAY = "[in_progress] …\n"
"""What an open stream shows above its text: the task by which it is found."""


def _send(code: str, told: Told = "outside", times: int = 1, **fields: str) -> Refusal[SlackSimulator]:
    fault = faults.error(code, **fields)
    return Refusal(code, "send", lambda app: app.fail("chat.postMessage", fault, times, chat=TEAM), told)


def _edit(code: str, times: int = 20, **fields: str) -> Refusal[SlackSimulator]:
    fault = faults.error(code, **fields)
    return Refusal(f"{code} to an edit", "edit", lambda app: app.fail("chat.update", fault, times, chat=TEAM))


def _file(method: str, code: str, **fields: str) -> Refusal[SlackSimulator]:
    fault = faults.error(code, **fields)
    return Refusal(f"{code} to {method}", "file", lambda app: app.fail(method, fault), "no file")


REFUSALS: tuple[Refusal[SlackSimulator], ...] = (
    _send("restricted_action"),
    _send("restricted_action_thread_locked"),
    _send("restricted_action_non_threadable_channel"),
    _send("msg_too_long", "no words", times=2),
    _send("is_archived", "nothing"),
    _send("invalid_auth", "all"),
    _send("missing_scope", "all", needed="chat:write"),
    _edit("edit_window_closed"),
    _edit("cant_update_message"),
    _edit("message_not_found", times=1),
    _edit("missing_scope", needed="chat:write"),
    _edit("invalid_auth", times=1),
    _file("files.getUploadURLExternal", "missing_scope", needed="files:write"),
    _file("files.completeUploadExternal", "missing_scope", needed="files:write"),
    _file("files.completeUploadExternal", "not_in_channel"),
    _file("files.completeUploadExternal", "restricted_action"),
    Refusal(
        "invalid_blocks",
        "buttons",
        lambda app: app.fail("chat.postMessage", faults.error("invalid_blocks"), 2, chat=TEAM),
        "numbers",
    ),
)


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

    refusals = REFUSALS

    @property
    def platform(self) -> SlackSimulator:
        return self.simulator

    async def stage(self) -> Stage:
        threads = [(await self.simulator.channel_says(text, silent=True)).ts for text in ("one", "two")]
        affected, other = (Address(account="slack", chat=TEAM.id, topic=thread, kind="group") for thread in threads)
        return Stage(affected, (other, self.dm))

    async def shown(self, address: Address) -> list[str]:
        place = TEAM if address.chat == TEAM.id else ALICE
        return [message.shown for message in await self.simulator.bot_messages(place)]

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
