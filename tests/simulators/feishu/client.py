"""The test client of the Feishu simulator: apps to test with, and waiting for their actions."""

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.simulators.client import WaitTimeoutError, ask, control_connection
from tests.simulators.feishu.acting import place_json
from tests.simulators.feishu.disturbing import DisturbingClient
from tests.simulators.feishu.seen import (
    Json,
    Place,
    RecordedCall,
    SeenMessage,
    render_transcript,
    seen_message,
)
from tests.simulators.process import SimulatorProcess
from tests.simulators.watching import ChatWatcher

MODULE = "tests.simulators.feishu"
DEFAULT_NAME = "antler"


@asynccontextmanager
async def running_feishu() -> AsyncIterator["FeishuSimulator"]:
    """Start a simulator process and yield a client for a fresh app in a fresh tenant."""
    async with SimulatorProcess(MODULE) as process, connect(process) as client:
        yield client


@asynccontextmanager
async def connect(process: SimulatorProcess) -> AsyncIterator["FeishuSimulator"]:
    """A fresh app in a fresh tenant of a running simulator; `verify` runs at the end for all apps."""
    async with control_connection() as http:
        client = await _fresh(f"http://127.0.0.1:{process.port}", http, DEFAULT_NAME, None, {})
        yield client
        await client.verify(everybody=True)


async def _fresh(
    root: str, http: httpx.AsyncClient, name: str, tenant_key: str | None, settings: Json
) -> "FeishuSimulator":
    key = uuid.uuid4().hex[:16]  # the SDK caches tokens by app_id for the whole process: each app needs its own
    app: Json = {"app_id": f"cli_{key}", "app_secret": f"secret-{key}", "name": name}
    app["tenant_key"] = tenant_key or f"tenant-{key}"
    await ask(http, root, "apps", {**app, **settings})
    return FeishuSimulator(root, http, app)


class FeishuSimulator(DisturbingClient, ChatWatcher[Place, SeenMessage]):
    """One app's view of the simulator.

    For the app under test: `domain`, `app_id`, `app_secret`, `bot_open_id`, `open_id(person)`, `chat_id(place)`.
    """

    async def fresh_app(self, name: str = DEFAULT_NAME, **settings: Any) -> "FeishuSimulator":
        """A new app in a new tenant: it has nothing of other tests. settings as for `configure`."""
        fresh = await _fresh(self.root, self._http, name, None, settings)
        await fresh._skip_records()
        return fresh

    async def another_app(self, name: str, **settings: Any) -> "FeishuSimulator":
        """A second app in this tenant: its own bot, direct chats and open_ids; groups and people are shared."""
        return await _fresh(self.root, self._http, name, self.tenant_key, settings)

    async def configure(self, **settings: Any) -> None:
        """Change the app.

        token_seconds: lifetime of new tenant tokens (7200). events: the list of subscribed event types.
        group_messages: "all" or "mentions", those received in groups. client_config: members of the config that
        endpoint and pongs send to the SDK (ReconnectCount -1, ReconnectInterval 1, ReconnectNonce 0, PingInterval 2).
        config_in_pong: whether pongs carry it. app_secret: the valid one from now on. bot_active.
        scopes: the list of granted ones.
        """
        await self._ask("configure", **settings)
        self.app_secret = str(settings.get("app_secret", self.app_secret))

    async def scanned(self, **outcome: Any) -> None:
        """A person has scanned the code of a registration; without an outcome it creates this app."""
        made = {"client_id": self.app_id, "client_secret": self.app_secret, "user_info": {"tenant_brand": "feishu"}}
        await self._ask("registration", outcome=outcome or made)

    async def records(self, method: str | None = None, *, chat: Place | None = None) -> list[RecordedCall]:
        """All requests of this app so far, in order of arrival; optionally of one method and chat."""
        place = None if chat is None else self.chat_id(chat)
        return [
            record
            for record in await self._all_records()
            if (method is None or record.method == method) and (place is None or record.chat_id == place)
        ]

    async def wait_for_call(self, method: str, timeout: float = 40.0, *, since: int = 0) -> RecordedCall:
        """The first finished call of a method."""
        return await self.wait_for_record(
            lambda record: record.method == method and record.finished is not None, timeout, since=since
        )

    async def chat_view(self, chat: Place, *, history: bool = False, revision: int = -1, wait: float = 0.0) -> Json:
        """The raw view: revision, chat, messages (see view.chat_view)."""
        return await self._ask("chat", chat=place_json(chat), history=history, revision=revision, wait=wait)

    async def messages(self, chat: Place) -> list[SeenMessage]:
        """All messages of a chat in order, with all their states, recalled ones included."""
        view = await self.chat_view(chat, history=True)
        return [seen_message(message) for message in view["messages"]]

    async def bot_messages(self, chat: Place, *, thread: str | None = None) -> list[SeenMessage]:
        """This app's messages that are still there, with all their states; optionally of one topic (thread_id)."""
        view = await self.chat_view(chat, history=True)
        return [message for message in self.own_messages(view) if thread is None or message.thread_id == thread]

    def own_messages(self, view: Json) -> Iterator[SeenMessage]:
        shown = map(seen_message, view["messages"])
        return (message for message in shown if message.sender == self.app_id and not message.deleted)

    def shown_text(self, message: SeenMessage) -> str:
        return message.text

    async def transcript(self, chat: Place) -> str:
        return render_transcript(await self.messages(chat))

    async def wait_idle(self, chat: Place | None = None, *, quiet: float = 0.3, timeout: float = 40.0) -> None:
        """Wait until, for `quiet` seconds, no event of the chat (or app) is open and no call runs."""
        place = None if chat is None else place_json(chat)
        if not (await self._ask("idle", chat=place, quiet=quiet, wait=timeout))["idle"]:
            raise WaitTimeoutError(f"not idle within {timeout} s")

    async def upload(self, key: str) -> Json:
        """A file by its key: name, mime, kind, size, duration, downloads, sent (bytes), content (None for filler)."""
        found = await self._ask("upload", key=key)
        content = found.pop("hex")
        return {**found, "content": None if content is None else bytes.fromhex(content)}

    async def card(self, card_id: str) -> Json:
        """A card entity: data (the card's JSON), sequence (of the last operation), streaming, message_id."""
        return await self._ask("card", card_id=card_id)
