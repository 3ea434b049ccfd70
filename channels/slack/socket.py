"""One Socket Mode connection: opens it, hands its envelopes on, tells how it ended. Made by connection.py.

Stands where bolt's own Socket Mode handler would: on the same client of the SDK, whose reconnecting is not used. It
tries a ticket that was refused for ever, swallows a revoked token, and notices a reset only at its next ping.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import aiohttp
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.response import SocketModeResponse

from channels.errors import Temporary

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from types import SimpleNamespace

    from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
    from slack_sdk.socket_mode.request import SocketModeRequest
    from slack_sdk.web.async_client import AsyncWebClient

    from channels.slack.inbound import Kind

    Take = Callable[[Kind, Mapping[str, Any]], Awaitable[bool]]
    """Commits an envelope's payload; False when it has to come again."""

OPEN_SECONDS = 15.0
CLOSE_SECONDS = 2.0
"""For the closing handshake; a half-open connection never answers it."""
ACK_SECONDS = 3.0
"""Slack sends an envelope again that was not acked by then."""
WATCH_SECONDS = 0.5
_KINDS: dict[str, Kind] = {
    "events_api": "events_api",
    "interactive": "interactive",
    "slash_commands": "slash_commands",
}


class Socket:
    """announced: Slack said that it is going to close this socket, so another can be opened first.

    reason: why it ended, for logs. on_sign: called at each sign of life on the wire.
    """

    def __init__(
        self, web: AsyncWebClient, url: str, proxy: str | None, take: Take, on_sign: Callable[[], None], ping: float
    ) -> None:
        self.announced = False
        self.reason = "the connection broke"
        self._web = web
        self._url = url
        self._proxy = proxy
        self._take = take
        self._on_sign = on_sign
        self._ping = ping
        self._refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._client: _Client | None = None
        self._working = 0
        self._worked = asyncio.Condition()

    async def open(self) -> None:
        """Connect. Raises Temporary."""
        self._client = client = _Client(self._web, self._ping)
        # The SDK's session takes what the environment says, and would not tell how a handshake failed.
        await client.aiohttp_client_session.close()
        client.aiohttp_client_session = aiohttp.ClientSession(trust_env=False, trace_configs=[self._refusals()])
        client.proxy = self._proxy
        client.wss_uri = self._url
        client.on_message_listeners.append(self._frame)
        client.socket_mode_request_listeners.append(self._handle)
        connecting = asyncio.ensure_future(client.connect())  # type: ignore[no-untyped-call]
        opened = False
        try:
            await asyncio.wait({connecting, self._refused}, timeout=OPEN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            opened = connecting.done() and not self._refused.done()
        finally:
            if not opened:
                connecting.cancel()
                await asyncio.gather(connecting, return_exceptions=True)
                await self.close()
        if not opened:
            why = self._refused.result() if self._refused.done() else f"not there within {OPEN_SECONDS:.0f} s"
            raise Temporary(f"the socket was not opened: {why}")

    async def ended(self) -> None:
        """Wait until the connection is dead, or is going to be closed by Slack (`announced`)."""
        client = self._client
        assert client is not None
        pong = client.last_ping_pong_time
        while not client.over.is_set():
            session = client.current_session
            if session is None or session.closed:
                break
            if client.last_ping_pong_time not in (pong, None):
                pong = client.last_ping_pong_time
                self._on_sign()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(client.over.wait(), WATCH_SECONDS)
        self.announced = client.announced
        broken = client.current_session
        if self.announced:
            self.reason = "Slack is closing the connection"
        elif client.stale or (broken is not None and isinstance(broken.exception(), TimeoutError)):
            self.reason = "no answer to pings"

    async def close(self) -> None:
        """Let what is being committed be acked, then close. Idempotent, never raises, takes a bounded time."""
        client, self._client = self._client, None
        if client is None:
            return
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ACK_SECONDS), self._worked:
                    await self._worked.wait_for(lambda: not self._working)
            client.closed, client.auto_reconnect_enabled = True, False
            tasks = [
                task
                for task in (client.message_receiver, client.current_session_monitor, client.message_processor)
                if task is not None
            ]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if client.current_session is not None:
                with contextlib.suppress(TimeoutError, OSError, aiohttp.ClientError, RuntimeError):
                    await asyncio.wait_for(client.current_session.close(), CLOSE_SECONDS)
        finally:
            # Also when the closing is cancelled, as at the end of a process: nobody else has hold of this session.
            await client.aiohttp_client_session.close()

    async def _handle(self, client: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        """One envelope: acked when it is committed, and not at all otherwise, so that Slack sends it again."""
        self._working += 1
        try:
            kind = _KINDS.get(request.type)
            if kind is None or await self._take(kind, request.payload):
                # An ack that cannot be written any more is a missing ack.
                with contextlib.suppress(ConnectionError):
                    await client.send_socket_mode_response(SocketModeResponse(request.envelope_id))
        finally:
            async with self._worked:
                self._working -= 1
                self._worked.notify_all()

    async def _frame(self, message: aiohttp.WSMessage) -> None:
        self._on_sign()

    def _refusals(self) -> aiohttp.TraceConfig:
        """Tells how a handshake failed; the SDK only logs that and tries the same address again."""
        trace = aiohttp.TraceConfig()

        async def answered(
            session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceRequestEndParams
        ) -> None:
            if params.response.status != 101 and not self._refused.done():
                self._refused.set_result(f"HTTP {params.response.status}")

        async def failed(
            session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceRequestExceptionParams
        ) -> None:
            if not self._refused.done():
                self._refused.set_result(type(params.exception).__name__)

        trace.on_request_end.append(answered)
        trace.on_request_exception.append(failed)
        return trace


class _Client(SocketModeClient):
    """The SDK's client, which asks for a new connection instead of making one."""

    def __init__(self, web: AsyncWebClient, ping_interval: float) -> None:
        # No token: the address is given to it.
        super().__init__("", web.logger, web, ping_interval=ping_interval)
        self.over = asyncio.Event()
        self.announced = False

    async def connect_to_new_endpoint(self, force: bool = False) -> None:
        # Slack's own disconnect message is the only caller that forces.
        self.announced = self.announced or force
        self.over.set()
