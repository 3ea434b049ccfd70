"""The test client of the Slack simulator: apps to test with, and waiting for their actions."""

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.simulators.client import WaitTimeoutError, ask, control_connection
from tests.simulators.process import SimulatorProcess
from tests.simulators.slack.acting import place_json
from tests.simulators.slack.disturbing import DisturbingClient
from tests.simulators.slack.seen import (
    ADMIN,
    ALICE,
    Json,
    Person,
    Place,
    RecordedCall,
    SeenMessage,
    render_transcript,
    seen_message,
)
from tests.simulators.watching import ChatWatcher

MODULE = "tests.simulators.slack"
DEFAULT_NAME = "antler"


@asynccontextmanager
async def running_slack() -> AsyncIterator["SlackSimulator"]:
    """Start a simulator process and yield a client for a fresh app in a fresh workspace."""
    async with SimulatorProcess(MODULE) as process, connect(process) as client:
        yield client


@asynccontextmanager
async def connect(process: SimulatorProcess) -> AsyncIterator["SlackSimulator"]:
    """A fresh app in a fresh workspace of a running simulator; `verify` runs at the end for all apps."""
    async with control_connection() as http:
        client = await _fresh(f"http://127.0.0.1:{process.port}", http, DEFAULT_NAME, {})
        yield client
        await client.verify(everybody=True)


async def _fresh(root: str, http: httpx.AsyncClient, name: str, settings: Json) -> "SlackSimulator":
    key = uuid.uuid4().hex[:8].upper()
    await ask(http, root, "workspaces", {"team_id": f"T{key}", "name": f"Team {key}"})
    app = {"app_id": f"A{key}", "name": name, "app_token": f"xapp-1-A{key}-SIMULATOR"}
    await ask(http, root, "apps", {**app, **settings})
    return await _installed(http, root, app, f"T{key}")


async def _installed(http: httpx.AsyncClient, root: str, app: Json, team_id: str) -> "SlackSimulator":
    bot_token = f"xoxb-{app['app_id']}-{team_id}-SIMULATOR"
    tokens = {"bot_token": bot_token, "user_token": f"xoxp-{app['app_id']}-{team_id}-SIMULATOR"}
    spec = {"app": app["app_id"], "team": team_id, "installer": ADMIN.to_json()}
    bot = await ask(http, root, "installs", {**spec, **tokens})
    return SlackSimulator(root, http, {**app, **bot, **tokens, "team_id": team_id})


class SlackSimulator(DisturbingClient, ChatWatcher[Place, SeenMessage]):
    """One installation's view of the simulator: an app in a workspace, with both its tokens."""

    @property
    def api_url(self) -> str:
        """The value for AsyncWebClient(base_url=...)."""
        return f"{self.root}/api/"

    async def fresh_app(self, name: str = DEFAULT_NAME, **settings: Any) -> "SlackSimulator":
        """A new app in a new workspace: it has nothing of other tests. settings as for `configure`."""
        fresh = await _fresh(self.root, self._http, name, settings)
        await fresh._skip_records()
        return fresh

    async def another_app(self, name: str, **settings: Any) -> "SlackSimulator":
        """A second app in this workspace."""
        app = {"app_id": f"A{uuid.uuid4().hex[:8].upper()}", "name": name}
        app["app_token"] = f"xapp-1-{app['app_id']}-SIMULATOR"
        await ask(self._http, self.root, "apps", {**app, **settings})
        return await _installed(self._http, self.root, app, self.team_id)

    async def another_workspace(self) -> "SlackSimulator":
        """The same app in a second workspace: another bot token, the same sockets."""
        team_id = f"T{uuid.uuid4().hex[:8].upper()}"
        await ask(self._http, self.root, "workspaces", {"team_id": team_id, "name": f"Team {team_id}"})
        app = {"app_id": self.app_id, "name": self.name, "app_token": self.app_token}
        return await _installed(self._http, self.root, app, team_id)

    async def configure(self, **settings: Any) -> None:
        """Change the app: events, commands, scopes, app_token_scopes (lists), socket_mode, messages_tab (flags)."""
        await self._ask("configure", **settings)

    async def break_tokens(
        self, bot_error: str | None = None, app_error: str | None = None, *, event: str | None = None
    ) -> None:
        """Set the error for each token from now on, None for valid ones; event: tokens_revoked is sent before."""
        await self._ask("tokens", bot_error=bot_error, app_error=app_error, event=event)

    async def records(self, method: str | None = None, *, chat: Place | None = None) -> list[RecordedCall]:
        """All requests of this app so far, in order of arrival; optionally of one method and channel."""
        place = None if chat is None else self.channel_id(chat)
        return [
            record
            for record in await self._all_records()
            if (method is None or record.method == method) and (place is None or record.channel == place)
        ]

    async def chat_view(self, chat: Place, *, history: bool = False, revision: int = -1, wait: float = 0.0) -> Json:
        """The raw view: revision, channel, messages, threads (see view.channel_view)."""
        return await self._ask("chat", channel=place_json(chat), history=history, revision=revision, wait=wait)

    async def messages(self, chat: Place) -> list[SeenMessage]:
        """All messages of a channel with their full edit history, deleted and ephemeral ones included."""
        view = await self.chat_view(chat, history=True)
        return [seen_message(message) for message in view["messages"]]

    async def bot_messages(self, chat: Place, *, thread: str | None = None) -> list[SeenMessage]:
        """This app's messages that still exist and are visible to all, with history; optionally of one thread."""
        view = await self.chat_view(chat, history=True)
        return [
            message
            for message in self.own_messages(view)
            if message.ephemeral_to is None
            and message.subtype != "assistant_app_thread"
            and (thread is None or message.thread == thread)
        ]

    def own_messages(self, view: Json) -> Iterator[SeenMessage]:
        shown = map(seen_message, view["messages"])
        return (message for message in shown if message.from_app == self.app_id and not message.deleted)

    def shown_text(self, message: SeenMessage) -> str:
        return message.shown

    async def thread(self, chat: Place, ts: str) -> Json:
        """The elements of a thread other than its messages: status, loading_messages, title, prompts, statuses."""
        found: Json = (await self.chat_view(chat))["threads"].get(ts, {})
        return found

    async def transcript(self, chat: Place) -> str:
        return render_transcript(await self.messages(chat))

    async def wait_idle(self, chat: Place | None = None, *, quiet: float = 0.3, timeout: float = 40.0) -> None:
        """Wait until, for `quiet` seconds, no envelope of the channel (or app) is open and no call runs."""
        place = None if chat is None else place_json(chat)
        if not (await self._ask("idle", channel=place, quiet=quiet, wait=timeout))["idle"]:
            raise WaitTimeoutError(f"not idle within {timeout} s")

    async def file(self, file_id: str) -> Json:
        """A file's declared_size, stream_size, sha256, sent (bytes that sockets took), downloads, login_pages."""
        return await self._ask("file", file_id=file_id)

    async def home(self, user: Person = ALICE) -> Json | None:
        """The App Home that views.publish gave this person."""
        found: Json | None = (await self._ask("home-view", user=user.id))["view"]
        return found

    async def modal(self, user: Person = ALICE) -> Json | None:
        """The newest modal of this person."""
        found: Json | None = (await self._ask("view-by-id", user=user.id))["view"]
        return found
