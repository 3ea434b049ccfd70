"""A gateway in memory whose HTTP service listens on loopback: real requests, a turned clock, a scripted agent."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from bot.access.admission import AccountPolicy
from bot.access.signin import SCOPES
from bot.http.auth import COOKIE, CSRF_HEADER, Gatekeeper
from bot.http.listener import listening
from bot.http.parts import routers
from bot.http.server import HttpServer
from bot.process.http import http_parts
from bot.settings.http import HttpSettings
from bot.settings.model import ChannelSettings
from bot.store.identity import OWN_ACCOUNTS
from channels.http.config import HttpConfig
from channels.registry import channel_class
from harness.context import ThreadView
from tests.bot.core import ANN, BOB, RULES, Core
from tests.bot.scripted_harness import ScriptedHarness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bot.access.admission import AccessRules
    from bot.http.parts import HttpParts
    from bot.settings import Settings

ADMIN, PERSON = f"memory:{ANN}", f"memory:{BOB}"


@dataclass
class ServedCore(Core):
    """http: keys of the config's section. sections: others of the settings, as they are."""

    http: dict[str, Any] = field(default_factory=dict)
    sections: dict[str, Any] = field(default_factory=dict)
    server: HttpServer = field(init=False)
    served: HttpParts = field(init=False)
    clients: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def settings(self) -> Settings:
        """With a listener, and with the accounts that come with one."""
        listener = HttpSettings(listen="127.0.0.1:0", **self.http)
        settings = super().settings.model_copy(update={"http": listener, **self.sections})
        folder = HttpConfig(uploads=self.folder / "users")
        settings.channels.update({name: ChannelSettings(type=name, adapter=folder) for name in OWN_ACCOUNTS})
        return settings

    def _channel(self, account: str, adapter: object, ports: Any) -> Any:
        if account in OWN_ACCOUNTS:
            return channel_class(account)(account, adapter, ports)
        return super()._channel(account, adapter, ports)

    async def start(self) -> None:
        await super().start()
        for account in OWN_ACCOUNTS:
            self.tasks.spawn(f"channel {account}", self.parts.connections.receive(account, lambda: None))
        settings = self.parts.settings
        gatekeeper = Gatekeeper(self.parts.signins, settings.http, self.clock)
        self.served = http_parts(self.parts, gatekeeper, lambda: True)
        self.server = HttpServer(settings.http, listening(settings.http), routers(self.served), gatekeeper, 50_000_000)
        self.server.start()
        gatekeeper.begin(self.tasks)

    async def _end(self) -> None:
        await self.clients.aclose()
        await self.server.close()
        await super()._end()

    # Who asks.

    def client(self, **headers: str) -> httpx.AsyncClient:
        url = f"http://127.0.0.1:{self.server.port}"
        made = httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, verify=False, timeout=60)
        self.clients.push_async_callback(made.aclose)
        return made

    async def program(self, person: str, *scopes: str) -> httpx.AsyncClient:
        """Somebody's token with these scopes, or all."""
        name = f"{person} {' '.join(scopes)}".replace(":", " ").strip()
        _, secret = await self.parts.signins.make_token(name, scopes or SCOPES, person)
        return self.client(Authorization=f"Bearer {secret}")

    async def browser(self, person: str = "web:local", **headers: str) -> httpx.AsyncClient:
        """Somebody's session, whose client sends what the pages send along."""
        link = self.parts.signins.link(person)
        assert link is not None
        client = self.client(**headers)
        answer = await client.post("/signin", data={"code": link.rpartition("/")[2]})
        assert answer.status_code == 303, answer.text
        assert client.cookies[COOKIE]
        client.headers[CSRF_HEADER] = (await client.get("/api/me")).json()["csrf"]
        return client


@asynccontextmanager
async def served(folder: Path, rules: AccessRules = RULES, **more: Any) -> AsyncIterator[ServedCore]:
    """A gateway that has started. ANN is an administrator, BOB may use it. more: fields of `ServedCore`."""
    made = ServedCore(folder, AccountPolicy(rules), **more)
    await made.start()
    try:
        yield made
    finally:
        await made.crash()


CALL = {"id": "c", "name": "look", "args": {}, "type": "tool_call"}
MESSAGES: tuple[dict[str, Any], ...] = (
    {"type": "human", "id": "m1", "content": "Hello"},
    {"type": "ai", "id": "m2", "content": "", "tool_calls": [CALL], "usage_metadata": None},
    {"type": "tool", "id": "m3", "content": "seen", "tool_call_id": "c", "status": "success"},
)


class Remembering(ScriptedHarness):
    """Each of its threads has one state."""

    async def views(
        self, thread_id: str, *, at: str | None = None, before: str | None = None, limit: int = 1
    ) -> list[ThreadView]:
        if at not in (None, "now"):
            return []
        common: Any = {"parent_id": "before", "created_at": "2026-01-01T00:00:00+00:00", "run_id": uuid.uuid4().hex}
        return [ThreadView(checkpoint_id="now", step=3, open=True, messages=MESSAGES, todos=({"a": 1},), **common)]


@asynccontextmanager
async def time_goes_on(world: ServedCore) -> AsyncIterator[None]:
    async def turn() -> None:
        while True:
            await world.clock.advance(0.5)
            await asyncio.sleep(0.02)

    turning = asyncio.create_task(turn())
    try:
        yield
    finally:
        turning.cancel()
        await asyncio.wait({turning})
