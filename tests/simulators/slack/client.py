"""The test client of the Slack simulator: apps to test with, and waiting for what they do."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.simulators.process import SimulatorProcess
from tests.simulators.slack.acting import SimulatorError, place_json
from tests.simulators.slack.disturbing import DisturbingClient, WaitTimeoutError
from tests.simulators.slack.seen import (
    ADMIN,
    ALICE,
    Json,
    Person,
    Place,
    Predicate,
    RecordedCall,
    SeenMessage,
    render_transcript,
    seen_message,
)

MODULE = "tests.simulators.slack"
DEFAULT_NAME = "antler"
LONGEST_POLL = 30.0
# No read time-out: long polls end by themselves, and a simulator that dies closes its connections.
HTTP_TIMEOUT = httpx.Timeout(10.0, read=None)


@asynccontextmanager
async def running_slack() -> AsyncIterator["SlackSimulator"]:
    """Start a simulator process and yield a client for a fresh app in a fresh workspace."""
    async with SimulatorProcess(MODULE) as process, connect(process) as client:
        yield client


@asynccontextmanager
async def connect(process: SimulatorProcess) -> AsyncIterator["SlackSimulator"]:
    """A fresh app in a fresh workspace of a simulator that already runs; `verify` runs at the end for all apps."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    async with httpx.AsyncClient(trust_env=False, timeout=HTTP_TIMEOUT, limits=limits, verify=False) as http:
        client = await _fresh(f"http://127.0.0.1:{process.port}", http, DEFAULT_NAME, {})
        yield client
        await client.verify(everybody=True)


async def _fresh(root: str, http: httpx.AsyncClient, name: str, settings: Json) -> "SlackSimulator":
    key = uuid.uuid4().hex[:8].upper()
    await _control(http, root, "workspaces", team_id=f"T{key}", name=f"Team {key}")
    app = {"app_id": f"A{key}", "name": name, "app_token": f"xapp-1-A{key}-SIMULATOR"}
    await _control(http, root, "apps", **app, **settings)
    return await _installed(http, root, app, f"T{key}")


async def _installed(http: httpx.AsyncClient, root: str, app: Json, team_id: str) -> "SlackSimulator":
    bot_token = f"xoxb-{app['app_id']}-{team_id}-SIMULATOR"
    tokens = {"bot_token": bot_token, "user_token": f"xoxp-{app['app_id']}-{team_id}-SIMULATOR"}
    spec = {"app": app["app_id"], "team": team_id, "installer": ADMIN.to_json()}
    bot = await _control(http, root, "installs", **spec, **tokens)
    return SlackSimulator(root, http, {**app, **bot, **tokens, "team_id": team_id})


async def _control(http: httpx.AsyncClient, root: str, route: str, **spec: Any) -> Json:
    answer = await http.post(f"{root}/control/{route}", json=spec)
    if answer.status_code != httpx.codes.OK:
        raise SimulatorError(f"{route}: {answer.text}")
    result: Json = answer.json()
    return result


class SlackSimulator(DisturbingClient):
    """One installation's view of the simulator: an app in a workspace, with both its tokens."""

    def __init__(self, root: str, http: httpx.AsyncClient, installation: Json) -> None:
        super().__init__(root, http, installation)
        self._position = 0
        self._records: dict[int, RecordedCall] = {}

    @property
    def api_url(self) -> str:
        """For AsyncWebClient(base_url=...)."""
        return f"{self.root}/api/"

    async def fresh_app(self, name: str = DEFAULT_NAME, **settings: Any) -> "SlackSimulator":
        """A new app in a new workspace: nothing of other tests is there. settings as for `configure`."""
        fresh = await _fresh(self.root, self._http, name, settings)
        fresh._position = (await self._ask("records", after=0))["position"]
        return fresh

    async def another_app(self, name: str, **settings: Any) -> "SlackSimulator":
        """A second app in this workspace."""
        app = {"app_id": f"A{uuid.uuid4().hex[:8].upper()}", "name": name}
        app["app_token"] = f"xapp-1-{app['app_id']}-SIMULATOR"
        await _control(self._http, self.root, "apps", **app, **settings)
        return await _installed(self._http, self.root, app, self.team_id)

    async def another_workspace(self) -> "SlackSimulator":
        """The same app in a second workspace: another bot token, the same sockets."""
        team_id = f"T{uuid.uuid4().hex[:8].upper()}"
        await _control(self._http, self.root, "workspaces", team_id=team_id, name=f"Team {team_id}")
        app = {"app_id": self.app_id, "name": self.name, "app_token": self.app_token}
        return await _installed(self._http, self.root, app, team_id)

    async def configure(self, **settings: Any) -> None:
        """Change the app: events, commands, scopes, app_token_scopes (lists), socket_mode, messages_tab (flags)."""
        await self._ask("configure", **settings)

    async def break_tokens(
        self, bot_error: str | None = None, app_error: str | None = None, *, event: str | None = None
    ) -> None:
        """What the tokens are answered with from now on, None for good ones; event: tokens_revoked is sent before."""
        await self._ask("tokens", bot_error=bot_error, app_error=app_error, event=event)

    async def verify(self, *, everybody: bool = False) -> None:
        """Raise SimulatorError for what the app (or any app) did that fails every test, such as an unknown method."""
        if problems := await self.problems(everybody=everybody):
            raise SimulatorError("; ".join(problems))

    async def problems(self, *, everybody: bool = False) -> list[str]:
        """The same as a list, for tests that provoke them; they are forgotten by being read."""
        answer = await self._ask("problems", **({"app": None} if everybody else {}))
        return [str(problem) for problem in answer["problems"]]

    async def records(self, method: str | None = None, *, chat: Place | None = None) -> list[RecordedCall]:
        """All requests of this app so far, in order of arrival; optionally of one method and channel."""
        await self._read_records(self._position, 0.0)
        place = None if chat is None else self.channel_id(chat)
        return [
            record
            for record in self._records.values()
            if (method is None or record.method == method) and (place is None or record.channel == place)
        ]

    async def wait_for_record(
        self, predicate: Callable[[RecordedCall], bool], timeout: float = 10.0, *, since: int = 0
    ) -> RecordedCall:
        """The first record from index `since` on that fits; records are looked at again when they change."""
        deadline = _now() + timeout
        position = self._position
        candidates = [record for record in self._records.values() if record.index >= since]
        while True:
            for record in candidates:
                if predicate(record):
                    return record
            remaining = deadline - _now()
            if remaining <= 0:
                calls = ", ".join(f"{r.method} ({r.outcome})" for r in list(self._records.values())[-20:])
                raise WaitTimeoutError(f"no such record within {timeout} s; the latest: {calls}")
            position, fresh = await self._read_records(position, min(remaining, LONGEST_POLL))
            candidates = [record for record in fresh if record.index >= since]

    async def _read_records(self, position: int, wait: float) -> tuple[int, list[RecordedCall]]:
        """Merge what changed after a position, waiting for a change at most `wait` seconds; with the new position."""
        answer = await self._ask("records", after=position, wait=wait)
        fresh = [RecordedCall(**record) for record in answer["records"]]
        mine = [record for record in fresh if record.app_id == self.app_id and record.team_id in (None, self.team_id)]
        for record in mine:
            known = self._records.get(record.index)
            # Two waits may overlap: an answer that was overtaken must not undo a newer state.
            if known is None or known.finished is None:
                self._records[record.index] = record
        self._position = max(self._position, answer["position"])
        return answer["position"], mine

    async def chat_view(self, chat: Place, *, history: bool = False, revision: int = -1, wait: float = 0.0) -> Json:
        """The raw view: revision, channel, messages, threads (see view.channel_view)."""
        return await self._ask("chat", channel=place_json(chat), history=history, revision=revision, wait=wait)

    async def messages(self, chat: Place) -> list[SeenMessage]:
        """All messages of a channel with their full edit history, deleted and ephemeral ones included."""
        view = await self.chat_view(chat, history=True)
        return [seen_message(message) for message in view["messages"]]

    async def bot_messages(self, chat: Place, *, thread: str | None = None) -> list[SeenMessage]:
        """This app's messages that are still there for everybody, with history; optionally of one thread."""
        return [
            message
            for message in await self.messages(chat)
            if message.from_app == self.app_id
            and not message.deleted
            and message.ephemeral_to is None
            and message.subtype != "assistant_app_thread"
            and (thread is None or message.thread == thread)
        ]

    async def thread(self, chat: Place, ts: str) -> Json:
        """What is shown in a thread besides its messages: status, loading_messages, title, prompts, statuses."""
        found: Json = (await self.chat_view(chat))["threads"].get(ts, {})
        return found

    async def wait_for_message(
        self, chat: Place, predicate: Predicate = lambda message: True, timeout: float = 10.0
    ) -> SeenMessage:
        """The first message of this app in a channel that fits, as soon as it does; `messages` has its history."""
        deadline = _now() + timeout
        revision, wait = -1, 0.0
        while True:
            view = await self.chat_view(chat, revision=revision, wait=wait)
            revision = view["revision"]
            for message in map(seen_message, view["messages"]):
                if message.from_app == self.app_id and not message.deleted and predicate(message):
                    return message
            wait = min(deadline - _now(), LONGEST_POLL)
            if wait <= 0:
                raise WaitTimeoutError(f"no such message within {timeout} s; the chat:\n{await self.transcript(chat)}")

    async def wait_for_text(self, chat: Place, text: str, timeout: float = 10.0) -> SeenMessage:
        """The first message of this app that shows a text."""
        return await self.wait_for_message(chat, lambda message: text in message.shown, timeout)

    async def transcript(self, chat: Place) -> str:
        """The channel as text for people."""
        return render_transcript(await self.messages(chat))

    async def wait_idle(self, chat: Place | None = None, *, quiet: float = 0.3, timeout: float = 10.0) -> None:
        """Until no envelope of the channel (or app) is open, no call runs, and `quiet` seconds went by like that."""
        place = None if chat is None else place_json(chat)
        if not (await self._ask("idle", channel=place, quiet=quiet, wait=timeout))["idle"]:
            raise WaitTimeoutError(f"not idle within {timeout} s")

    async def file(self, file_id: str) -> Json:
        """Of a file: declared_size, stream_size, sha256, sent (bytes that sockets took), downloads, login_pages."""
        return await self._ask("file", file_id=file_id)

    async def home(self, user: Person = ALICE) -> Json | None:
        """The App Home that views.publish gave this person."""
        found: Json | None = (await self._ask("home-view", user=user.id))["view"]
        return found

    async def modal(self, user: Person = ALICE) -> Json | None:
        """The newest modal of this person."""
        found: Json | None = (await self._ask("view-by-id", user=user.id))["view"]
        return found

    async def count_showing(self, text: str) -> int:
        """How many messages of apps in the workspace's DMs show exactly this text; cheap for the simulator."""
        return int((await self._ask("showing", text=text))["count"])

    async def tally(self) -> dict[tuple[str, str], int]:
        """Finished requests by (method, outcome), those of other apps included."""
        return {(row["method"], row["outcome"]): row["count"] for row in (await self._ask("tally"))["counts"]}

    async def keep_lean(self, lean: bool = True) -> None:
        """Count requests and do not record them, so that hours of traffic fit into memory."""
        await self._ask("lean", lean=lean)


def _now() -> float:
    return asyncio.get_running_loop().time()
