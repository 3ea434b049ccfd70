"""The test client of the Feishu simulator: apps to test with, and waiting for what they do."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.simulators.feishu.acting import SimulatorError, place_json
from tests.simulators.feishu.disturbing import DisturbingClient, WaitTimeoutError
from tests.simulators.feishu.seen import (
    Json,
    Place,
    Predicate,
    RecordedCall,
    SeenMessage,
    render_transcript,
    seen_message,
)
from tests.simulators.process import SimulatorProcess

MODULE = "tests.simulators.feishu"
DEFAULT_NAME = "antler"
LONGEST_POLL = 30.0
# No read time-out: long polls end by themselves, and a simulator that dies closes its connections.
HTTP_TIMEOUT = httpx.Timeout(10.0, read=None)


@asynccontextmanager
async def running_feishu() -> AsyncIterator["FeishuSimulator"]:
    """Start a simulator process and yield a client for a fresh app in a fresh tenant."""
    async with SimulatorProcess(MODULE) as process, connect(process) as client:
        yield client


@asynccontextmanager
async def connect(process: SimulatorProcess) -> AsyncIterator["FeishuSimulator"]:
    """A fresh app in a fresh tenant of a simulator that already runs; `verify` runs at the end for all apps."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    async with httpx.AsyncClient(trust_env=False, timeout=HTTP_TIMEOUT, limits=limits, verify=False) as http:
        client = await _fresh(f"http://127.0.0.1:{process.port}", http, DEFAULT_NAME, None, {})
        yield client
        await client.verify(everybody=True)


async def _fresh(
    root: str, http: httpx.AsyncClient, name: str, tenant_key: str | None, settings: Json
) -> "FeishuSimulator":
    key = uuid.uuid4().hex[:16]  # the SDK caches tokens by app_id for the whole process: each app needs its own
    app: Json = {"app_id": f"cli_{key}", "app_secret": f"secret-{key}", "name": name}
    app["tenant_key"] = tenant_key or f"tenant-{key}"
    answer = await http.post(f"{root}/control/apps", json={**app, **settings})
    if answer.status_code != httpx.codes.OK:
        raise SimulatorError(f"apps: {answer.text}")
    return FeishuSimulator(root, http, app)


class FeishuSimulator(DisturbingClient):
    """One app's view of the simulator.

    For the app under test: `domain`, `app_id`, `app_secret`, `bot_open_id`, `open_id(person)`, `chat_id(place)`.
    """

    def __init__(self, root: str, http: httpx.AsyncClient, app: Json) -> None:
        super().__init__(root, http, app)
        self._position = 0
        self._records: dict[int, RecordedCall] = {}

    async def fresh_app(self, name: str = DEFAULT_NAME, **settings: Any) -> "FeishuSimulator":
        """A new app in a new tenant: nothing of other tests is there. settings as for `configure`."""
        fresh = await _fresh(self.root, self._http, name, None, settings)
        fresh._position = (await self._ask("records", after=1 << 60))["position"]
        return fresh

    async def another_app(self, name: str, **settings: Any) -> "FeishuSimulator":
        """A second app in this tenant: its own bot, direct chats and open_ids; groups and people are shared."""
        return await _fresh(self.root, self._http, name, self.tenant_key, settings)

    async def configure(self, **settings: Any) -> None:
        """Change the app.

        token_seconds: how long new tenant tokens live (7200). events: the list of subscribed event types.
        group_messages: "all" or "mentions" of what is said in groups. client_config: members of what endpoint and
        pongs tell the SDK (ReconnectCount -1, ReconnectInterval 1, ReconnectNonce 0, PingInterval 2).
        config_in_pong: whether pongs carry it. app_secret: another one is right from now on. bot_active.
        """
        await self._ask("configure", **settings)
        self.app_secret = str(settings.get("app_secret", self.app_secret))

    async def verify(self, *, everybody: bool = False) -> None:
        """Raise SimulatorError for what the app (or any app) did that fails every test, such as an unknown endpoint."""
        if problems := await self.problems(everybody=everybody):
            raise SimulatorError("; ".join(problems))

    async def problems(self, *, everybody: bool = False) -> list[str]:
        """The same as a list, for tests that provoke them; they are forgotten by being read."""
        answer = await self._ask("problems", **({"app": None} if everybody else {}))
        return [str(problem) for problem in answer["problems"]]

    async def records(self, method: str | None = None, *, chat: Place | None = None) -> list[RecordedCall]:
        """All requests of this app so far, in order of arrival; optionally of one method and chat."""
        await self._read_records(self._position, 0.0)
        place = None if chat is None else self.chat_id(chat)
        return [
            record
            for record in self._records.values()
            if (method is None or record.method == method) and (place is None or record.chat_id == place)
        ]

    async def wait_for_record(
        self, predicate: Callable[[RecordedCall], bool], timeout: float = 10.0, *, since: int = 0
    ) -> RecordedCall:
        """The first record from index `since` on that fits; records are looked at again when they change."""
        deadline = _now() + timeout
        position = self._position
        candidates = [record for record in self._records.values() if record.index >= since]
        while True:
            found = next((record for record in candidates if predicate(record)), None)
            if found is not None:
                return found
            remaining = deadline - _now()
            if remaining <= 0:
                calls = ", ".join(f"{r.method} ({r.outcome})" for r in list(self._records.values())[-20:])
                raise WaitTimeoutError(f"no such record within {timeout} s; the latest: {calls}")
            position, fresh = await self._read_records(position, min(remaining, LONGEST_POLL))
            candidates = [record for record in fresh if record.index >= since]

    async def wait_for_call(self, method: str, timeout: float = 10.0, *, since: int = 0) -> RecordedCall:
        """The first finished call of a method."""
        return await self.wait_for_record(
            lambda record: record.method == method and record.finished is not None, timeout, since=since
        )

    async def _read_records(self, position: int, wait: float) -> tuple[int, list[RecordedCall]]:
        """Merge what changed after a position, waiting for a change at most `wait` seconds; with the new position."""
        answer = await self._ask("records", after=position, wait=wait)
        fresh = [RecordedCall(**record) for record in answer["records"]]
        mine = [record for record in fresh if record.app_id == self.app_id]
        for record in mine:
            known = self._records.get(record.index)
            # Two waits may overlap: an answer that was overtaken must not undo a newer state.
            if known is None or known.finished is None:
                self._records[record.index] = record
        self._position = max(self._position, answer["position"])
        return answer["position"], mine

    async def chat_view(self, chat: Place, *, history: bool = False, revision: int = -1, wait: float = 0.0) -> Json:
        """The raw view: revision, chat, messages (see view.chat_view)."""
        return await self._ask("chat", chat=place_json(chat), history=history, revision=revision, wait=wait)

    async def messages(self, chat: Place) -> list[SeenMessage]:
        """All messages of a chat in order, with all their states, recalled ones included."""
        view = await self.chat_view(chat, history=True)
        return [seen_message(message) for message in view["messages"]]

    async def bot_messages(self, chat: Place, *, thread: str | None = None) -> list[SeenMessage]:
        """This app's messages that are still there, with all their states; optionally of one topic (thread_id)."""
        return [
            message
            for message in await self.messages(chat)
            if message.sender == self.app_id and not message.deleted and (thread is None or message.thread_id == thread)
        ]

    async def wait_for_message(
        self, chat: Place, predicate: Predicate = lambda message: True, timeout: float = 10.0
    ) -> SeenMessage:
        """The first message of this app in a chat that fits, as soon as it does; `messages` has its history."""
        deadline = _now() + timeout
        revision, wait = -1, 0.0
        while True:
            view = await self.chat_view(chat, revision=revision, wait=wait)
            revision = view["revision"]
            for message in map(seen_message, view["messages"]):
                if message.sender == self.app_id and not message.deleted and predicate(message):
                    return message
            wait = min(deadline - _now(), LONGEST_POLL)
            if wait <= 0:
                raise WaitTimeoutError(f"no such message within {timeout} s; the chat:\n{await self.transcript(chat)}")

    async def wait_for_text(self, chat: Place, text: str, timeout: float = 10.0) -> SeenMessage:
        """The first message of this app that shows a text."""
        return await self.wait_for_message(chat, lambda message: text in message.text, timeout)

    async def transcript(self, chat: Place) -> str:
        """The chat as text for people."""
        return render_transcript(await self.messages(chat))

    async def wait_idle(self, chat: Place | None = None, *, quiet: float = 0.3, timeout: float = 10.0) -> None:
        """Until no event of the chat (or app) is open, no call runs, and `quiet` seconds went by like that."""
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

    async def count_showing(self, text: str) -> int:
        """How many messages of apps in the tenant's direct chats show exactly this text; cheap for the simulator."""
        return int((await self._ask("showing", text=text))["count"])

    async def tally(self) -> dict[tuple[str, str], int]:
        """Finished requests by (method, outcome), those of other apps included."""
        return {(row["method"], row["outcome"]): row["count"] for row in (await self._ask("tally"))["counts"]}

    async def keep_lean(self, lean: bool = True) -> None:
        """Count requests and do not record them, so that hours of traffic fit into memory."""
        await self._ask("lean", lean=lean)


def _now() -> float:
    return asyncio.get_running_loop().time()
