"""The app's side with the real SDK, for the simulator's own tests: a Web API client and a bolt app on Socket Mode."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_sdk.web.async_client import AsyncWebClient

from tests.simulators.slack.client import SlackSimulator

Json = dict[str, Any]
Listener = Callable[..., Awaitable[None]]
PATIENCE = 10.0


def web_client(slack: SlackSimulator, *, token: str | None = None, timeout: int = 5) -> AsyncWebClient:
    """The SDK's client of this installation, without its automatic retries."""
    client = AsyncWebClient(token=token or slack.bot_token, base_url=slack.api_url, timeout=timeout)
    client.retry_handlers = []
    return client


async def nothing() -> None:
    """A listener: without one bolt answers 404 and does not ack."""


class Received:
    """The requests that the bolt app received, before it acked them; `refuse` makes it fail instead."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[AsyncBoltRequest] = asyncio.Queue()
        self.refuse = 0

    async def take(self, request: AsyncBoltRequest) -> None:
        """Called by the global middleware."""
        self.requests.put_nowait(request)
        if self.refuse > 0:
            self.refuse -= 1
            raise RuntimeError("not committed")

    async def next(self) -> AsyncBoltRequest:
        """The next request."""
        return await asyncio.wait_for(self.requests.get(), PATIENCE)

    async def event(self, kind: str | None = None) -> Json:
        """The next event, optionally of a type."""
        while True:
            event: Json = (await self.next()).body.get("event", {})
            if kind is None or event.get("type") == kind:
                return event


class BoltApp:
    """A bolt app with a catch-all listener, connected by Socket Mode's aiohttp client."""

    def __init__(self, slack: SlackSimulator, ping_interval: float, on_message: Listener) -> None:
        self.received = Received()
        self.client = web_client(slack)
        self.app = AsyncApp(client=self.client)
        self.handler: Any = AsyncSocketModeHandler(self.app, slack.app_token, ping_interval=ping_interval)
        self.app.use(self._record)
        self.app.event({"type": "message"})(on_message)
        for kind in ("app_mention", "app_home_opened", "assistant_thread_started", "member_joined_channel"):
            self.app.event(kind)(nothing)
        self.app.event("reaction_added")(nothing)

    async def _record(self, req: AsyncBoltRequest, next: Callable[[], Awaitable[Any]]) -> None:
        await self.received.take(req)
        await next()


@asynccontextmanager
async def bolt_app(
    slack: SlackSimulator, *, ping_interval: float = 10.0, on_message: Listener = nothing
) -> AsyncIterator[BoltApp]:
    """A connected bolt app. on_message: its listener for messages, with bolt's arguments."""
    bolt = BoltApp(slack, ping_interval, on_message)
    try:
        await asyncio.wait_for(bolt.handler.connect_async(), PATIENCE)
        await slack.wait_connected(more=True)
        yield bolt
    finally:
        await bolt.handler.close_async()
