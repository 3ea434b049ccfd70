"""One Socket Mode connection: bolt's handler of envelopes, on the SDK's client with automatic reconnection turned off.

The SDK's reconnection retries a refused ticket endlessly, hides a revoked token, and notices a reset only at its next
ping. See ADR 7.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, get_args

import aiohttp
from slack_bolt.adapter.socket_mode.async_base_handler import AsyncBaseSocketModeHandler
from slack_bolt.adapter.socket_mode.async_internals import send_async_response
from slack_bolt.adapter.socket_mode.internals import build_headers
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.middleware.async_middleware import AsyncMiddleware
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.socket_mode.aiohttp import SocketModeClient

from channels.errors import Temporary
from channels.slack.inbound import Kind
from channels.supervision import within

if TYPE_CHECKING:
    import logging
    from types import SimpleNamespace

    from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
    from slack_sdk.socket_mode.request import SocketModeRequest
    from slack_sdk.web.async_client import AsyncWebClient

    from channels.slack.inbound import Me

Take = Callable[[Kind, Mapping[str, Any]], Awaitable[bool | str]]
"""Commits an envelope's payload; False if it has to be sent again, a text to show only to the sender of a command."""

OPEN_SECONDS = 15.0
CLOSE_SECONDS = 2.0
"""Time for the closing handshake; a half-open connection never answers it."""
ACK_SECONDS = 3.0
"""Slack sends an envelope again that is not acknowledged within this time."""
WATCH_SECONDS = 0.5
_KINDS: dict[str, Kind] = {kind: kind for kind in get_args(Kind)}
_KIND = "antler.kind"
"""Key in bolt's context, because bolt's request does not contain the type of its envelope."""
# Errors raised when reading JSON of an unexpected structure.
_NOT_UNDERSTOOD = (TypeError, AttributeError, LookupError, ValueError, RecursionError)


class _Committed(BoltResponse):
    """The answer to an envelope that was passed to `Take`: bolt acknowledges only a 200."""

    def __init__(self, committed: bool | str) -> None:
        super().__init__(status=200 if committed else 503, body=committed if isinstance(committed, str) else "")


class _Commit(AsyncMiddleware):
    """Bolt middleware that commits and answers, because envelopes without a listener would stay unanswered."""

    def __init__(self, take: Take) -> None:
        self._take = take

    async def async_process(
        self, *, req: AsyncBoltRequest, resp: BoltResponse, next: Callable[[], Awaitable[BoltResponse]]
    ) -> BoltResponse:
        return _Committed(await self._take(req.context[_KIND], req.body))


class Dispatcher:
    """The bolt app of one account. take: commits an envelope's payload.

    Nothing in bolt's chain waits before `take` is called, so envelopes keep their order of arrival.
    """

    def __init__(self, client: AsyncWebClient, log: logging.Logger, me: Me, take: Take) -> None:
        self._take = take
        self.client = client
        self.app = AsyncApp(
            name=log.name,
            logger=log,
            client=client,
            # Bolt may read tokens and OAuth settings from the environment: the arguments given here take precedence.
            signing_secret="",
            authorize=_authorization(me),
            # The rest is for HTTP, or would hide events that we have to store.
            request_verification_enabled=False,
            ssl_check_enabled=False,
            url_verification_enabled=False,
            ignoring_self_events_enabled=False,
            attaching_function_token_enabled=False,
        )
        self.app.use(_Commit(take))

    async def answer(self, request: SocketModeRequest) -> BoltResponse:
        """Commit an envelope and return bolt's answer. What bolt cannot parse is committed as it is."""
        kind = _KINDS.get(request.type)
        if kind is None:
            return BoltResponse(status=200)
        try:
            bolt_request = AsyncBoltRequest(
                mode="socket_mode", body=request.payload, headers=build_headers(request), context={_KIND: kind}
            )
        except _NOT_UNDERSTOOD:
            return _Committed(await self._take(kind, request.payload))
        response = await self.app.async_dispatch(bolt_request)
        if isinstance(response, _Committed):
            return response
        return _Committed(await self._take(kind, request.payload))


def _authorization(me: Me) -> Callable[..., Awaitable[AuthorizeResult]]:
    """Bolt's authorization without its own auth.test, which was already called at the start."""
    known = AuthorizeResult(enterprise_id=None, team_id=me.team, bot_user_id=me.user, user=me.username)

    async def authorize() -> AuthorizeResult:
        return known

    return authorize


class Socket(AsyncBaseSocketModeHandler):
    """A handler for one connection, which ends with it; needs a running loop. on_sign: called at each frame and pong.

    announced: Slack announced that it will close this socket, so another can be opened first.
    reason: why it ended, for logs.
    """

    app: AsyncApp
    client: _Client

    def __init__(
        self, dispatcher: Dispatcher, url: str, proxy: str | None, on_sign: Callable[[], None], ping: float
    ) -> None:
        self.announced = False
        self.reason = "the connection was lost"
        self.app = dispatcher.app
        self.client = _Client(dispatcher.client, url, proxy, ping)
        self._dispatcher = dispatcher
        self._on_sign = on_sign
        self._refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._working = 0
        self._worked = asyncio.Condition()

    async def connect_async(self) -> None:
        """Connect. Raises Temporary."""
        client = self.client
        # The SDK's session uses the environment, and does not report how a handshake failed.
        await client.aiohttp_client_session.close()
        client.aiohttp_client_session = aiohttp.ClientSession(trust_env=False, trace_configs=[self._refusals()])
        client.on_message_listeners.append(self._frame)
        client.socket_mode_request_listeners.append(self.handle)
        connecting = asyncio.ensure_future(client.connect())  # type: ignore[no-untyped-call]
        opened = False
        try:
            await asyncio.wait({connecting, self._refused}, timeout=OPEN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            opened = connecting.done() and not self._refused.done()
        finally:
            if not opened:
                connecting.cancel()
                await asyncio.gather(connecting, return_exceptions=True)
                await self.close_async()
        if not opened:
            why = self._refused.result() if self._refused.done() else f"no connection within {OPEN_SECONDS:.0f} s"
            raise Temporary(f"the socket was not opened: {why}")

    async def ended(self) -> None:
        """Wait until the connection is dead, or Slack announces that it will close it (`announced`)."""
        client = self.client
        pong = client.last_ping_pong_time
        while not client.over.is_set():
            session = client.current_session
            if session is None or session.closed:
                break
            if client.last_ping_pong_time not in (pong, None):
                pong = client.last_ping_pong_time
                self._on_sign()
            await within(WATCH_SECONDS, client.over.wait())
        self.announced = client.announced
        broken = client.current_session
        if self.announced:
            self.reason = "Slack is closing the connection"
        elif client.stale or (broken is not None and isinstance(broken.exception(), TimeoutError)):
            self.reason = "no answer to pings"

    async def close_async(self) -> None:
        """Wait until running commits are acknowledged, then close. Idempotent, never raises, takes a bounded time."""
        client = self.client
        if client.closed:
            return
        try:
            await within(ACK_SECONDS, self._rests())
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
                with contextlib.suppress(OSError, aiohttp.ClientError, RuntimeError):
                    await within(CLOSE_SECONDS, client.current_session.close())
        finally:
            # Even if closing is cancelled, as at the end of a process: nothing else can close this session.
            client.closed = True
            await client.aiohttp_client_session.close()

    async def _rests(self) -> None:
        """Wait until no commit is running."""
        async with self._worked:
            await self._worked.wait_for(lambda: not self._working)

    async def handle(self, client: AsyncBaseSocketModeClient, req: SocketModeRequest) -> None:
        """Answer one envelope: acknowledge it once it is committed; otherwise do nothing, so that it is sent again."""
        began = time.time()
        self._working += 1
        try:
            response = await self._dispatcher.answer(req)
            # An acknowledgement that can no longer be written counts as missing.
            with contextlib.suppress(ConnectionError):
                await send_async_response(client, req, response, began)
        finally:
            async with self._worked:
                self._working -= 1
                self._worked.notify_all()

    async def _frame(self, message: aiohttp.WSMessage) -> None:
        self._on_sign()

    def _refusals(self) -> aiohttp.TraceConfig:
        """Trace that reports how a handshake failed; the SDK only logs that and retries the same URL."""
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
    """The SDK's client for one URL, which requests a new connection instead of opening one."""

    def __init__(self, web: AsyncWebClient, url: str, proxy: str | None, ping_interval: float) -> None:
        # No token: the URL is set below.
        super().__init__("", web.logger, web, ping_interval=ping_interval)
        self.wss_uri = url
        self.proxy = proxy  # without one the SDK uses the environment's
        self.over = asyncio.Event()
        self.announced = False

    async def connect_to_new_endpoint(self, force: bool = False) -> None:
        # `force` is set only for Slack's own disconnect message.
        self.announced = self.announced or force
        self.over.set()
