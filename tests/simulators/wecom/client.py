"""The test client of the WeCom simulator: bots to test with, and waiting for their actions."""

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx

from tests.simulators.client import WaitTimeoutError, ask, control_connection
from tests.simulators.process import SimulatorProcess
from tests.simulators.watching import ChatWatcher
from tests.simulators.wecom.acting import ActingClient
from tests.simulators.wecom.seen import Json, Place, SeenFrame, SeenMessage, seen_message, transcript

MODULE = "tests.simulators.wecom"
DEFAULT_NAME = "Antler"


@asynccontextmanager
async def running_wecom() -> AsyncIterator["WecomSimulator"]:
    """Start a simulator process and yield a client for a fresh bot."""
    async with SimulatorProcess(MODULE) as process, connect(process) as client:
        yield client


@asynccontextmanager
async def connect(process: SimulatorProcess) -> AsyncIterator["WecomSimulator"]:
    """A fresh bot of a running simulator; `verify` runs at the end for all bots."""
    async with control_connection() as http:
        client = await _fresh(f"http://127.0.0.1:{process.port}", http, DEFAULT_NAME)
        yield client
        await client.verify(everybody=True)


async def _fresh(root: str, http: httpx.AsyncClient, name: str) -> "WecomSimulator":
    bot = {"bot": f"aib{uuid.uuid4().hex[:12]}", "secret": f"secret-{uuid.uuid4().hex}", "name": name}
    await ask(http, root, "bots", bot)
    return WecomSimulator(root, http, bot)


class WecomSimulator(ActingClient, ChatWatcher[Place, SeenMessage]):
    """One bot's view of the simulator."""

    patience = 20.0

    async def fresh_bot(self, name: str = DEFAULT_NAME) -> "WecomSimulator":
        """Another bot without any history."""
        fresh = await _fresh(self.root, self._http, name)
        await fresh._skip_records()
        return fresh

    async def records(self, cmd: str | None = None, *, chat: Place | None = None) -> list[SeenFrame]:
        """All frames of this bot so far, in order of arrival; optionally of one command and conversation."""
        return [
            record
            for record in await self._all_records()
            if cmd in (None, record.cmd) and (chat is None or record.chat == chat.id)
        ]

    async def messages(self, place: Place) -> list[SeenMessage]:
        """Everything in a conversation with its whole history, oldest first."""
        return [seen_message(bubble) for bubble in (await self.chat_view(place))["bubbles"]]

    async def bot_messages(self, place: Place) -> list[SeenMessage]:
        """The bot's messages in a conversation."""
        return list(self.own_messages(await self.chat_view(place)))

    async def chat_view(self, chat: Place, *, revision: int = -1, wait: float = 0.0) -> Json:
        return await self.ask("chat", chat=chat.id, kind=chat.kind, revision=revision, wait=wait)

    async def transcript(self, chat: Place) -> str:
        return transcript(await self.messages(chat))

    def own_messages(self, view: Json) -> Iterator[SeenMessage]:
        return (message for message in map(seen_message, view["bubbles"]) if not message.author)

    def shown_text(self, message: SeenMessage) -> str:
        return message.text

    async def texts(self, place: Place) -> list[str]:
        """The current texts of the bot's messages in a conversation."""
        return [message.text for message in await self.bot_messages(place)]

    async def wait_finished(self, place: Place, text: str, timeout: float = 40.0) -> SeenMessage:
        """Wait for the first message with a text that is final: a finished stream, or no stream at all."""
        return await self.wait_for_message(
            place, lambda message: text in message.text and message.state in ("", "finished"), timeout
        )

    async def wait_idle(
        self, place: Place | None = None, *, quiet: float = 0.3, timeout: float = 40.0, streams: bool = False
    ) -> None:
        """Wait until nothing happened in a conversation (or any) for `quiet` seconds and no stream is open (`streams`:
        open ones do not count)."""
        chat = None if place is None else place.id
        if not (await self.ask("idle", chat=chat, quiet=quiet, wait=timeout, streams=streams))["idle"]:
            raise WaitTimeoutError(f"not idle within {timeout} s")
