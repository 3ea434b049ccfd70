"""The HTTP transports: the SDK's, on a client that uses the configured route, limits the size of messages, and turns
the failure of one request into that request's error. Entered and left in one task.

When one POST fails, the SDK ends the whole session, including all other calls.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from typing import TYPE_CHECKING, Any

import anyio
import httpx
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCResponse

from harness.mcp.config import plain
from harness.mcp.errors import ServerFailed
from harness.mcp.oauth import TokenAuth
from harness.text.frames import line
from sandbox.egress.tls import trust

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from anyio.abc import ObjectReceiveStream, ObjectSendStream
    from mcp.types import RequestId

    from harness.mcp.config import McpServerSettings
    from harness.mcp.oauth import Tokens
    from harness.mcp.session import Streams

    Route = tuple[str | None, Path | None]
    Reading = ObjectReceiveStream[SessionMessage | Exception]
    Writing = ObjectSendStream[SessionMessage | Exception]

LARGEST_MESSAGE = 8 * 1024 * 1024
CONNECT_SECONDS = 15.0
NOTICE_SECONDS = 5.0
"""Seconds for what has no answer: a notification, the end of a session."""
UNREACHED, BROKEN, REFUSED, GONE = -32901, -32902, -32903, -32904
"""Error codes that this module answers with: the request was not sent; it may have been; it was rejected; the server no
longer knows the session (status 404), so the request was not executed."""
_OURS = object()
"""Marker in an error's data: nothing from a server is identical to it."""
_EVENTS, _JSON = "text/event-stream", "application/json"
_EVENT_ID = re.compile(rb"(?:^|[\r\n])id:")


@contextlib.asynccontextmanager
async def http_streams(settings: McpServerSettings, route: Route, tokens: Tokens | None) -> AsyncIterator[Streams]:
    """The session's two streams, over streamable HTTP or SSE."""
    assert settings.url is not None
    url = plain(settings.url)
    to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    def client(
        headers: dict[str, str] | None = None, timeout: httpx.Timeout | None = None, auth: httpx.Auth | None = None
    ) -> httpx.AsyncClient:
        return SessionClient(settings, route, TokenAuth(tokens) if tokens is not None else None, to_session)

    async with contextlib.AsyncExitStack() as stack:
        stack.callback(incoming.close)
        stack.callback(to_session.close)
        if settings.transport == "sse":
            read, write = await stack.enter_async_context(sse_client(url, httpx_client_factory=client))
        else:
            http = await stack.enter_async_context(client())
            read, write, _ = await stack.enter_async_context(streamable_http_client(url, http_client=http))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(_pass_on, read, to_session)
        yield incoming, write
        tasks.cancel_scope.cancel()


async def _pass_on(read: Reading, to_session: Writing) -> None:
    """Forward the server's messages until it closes the stream."""
    async with to_session, read:
        async for message in read:
            try:
                await to_session.send(message)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return  # the session has ended


def plain_client(route: Route) -> httpx.AsyncClient:
    """A client without the session's rules, for requests to token providers."""
    return httpx.AsyncClient(trust_env=False, transport=_transport(route), timeout=CONNECT_SECONDS)


def _transport(route: Route) -> BoundedTransport:
    proxy, ca_file = route
    # Each call in progress takes a connection; runs are limited elsewhere.
    limits = httpx.Limits(max_keepalive_connections=20)
    inner = httpx.AsyncHTTPTransport(verify=trust(ca_file), proxy=proxy, trust_env=False, limits=limits)
    return BoundedTransport(inner)


class SessionClient(httpx.AsyncClient):
    """Answers a message that cannot be delivered, or whose response breaks off, with an error, to_session."""

    def __init__(self, settings: McpServerSettings, route: Route, auth: httpx.Auth | None, to_session: Writing) -> None:
        super().__init__(
            trust_env=False,
            transport=_transport(route),
            headers={name: plain(value) for name, value in settings.headers.items()},
            auth=auth,
        )
        self._answered_in_response = settings.transport == "http"
        # Longer than a caller waits. Some servers never end the response to a call that was withdrawn.
        self._patience = max(settings.timeout, settings.connect_timeout) + CONNECT_SECONDS
        self._to_session = to_session

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send like httpx, but report a failed POST to the session, and tell the SDK not to wait for a response."""
        message = json.loads(await request.aread()) if request.method == "POST" else {}
        wanted: RequestId | None = message.get("id") if "method" in message else None
        request.extensions["timeout"] = self._timeout_of(request.method, wanted).as_dict()
        if request.method != "POST":
            return await super().send(request, **options)
        try:
            response = await super().send(request, **options)
            if wanted is not None and self._answered_in_response and response.is_success:
                await self._check(response, wanted)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.PoolTimeout) as error:
            return await self._failed(request, wanted, UNREACHED, f"it cannot be reached ({type(error).__name__})")
        except httpx.HTTPError as error:
            return await self._failed(request, wanted, BROKEN, _why(error))
        except ServerFailed as error:
            return await self._failed(request, wanted, REFUSED, str(error))
        if not (response.is_success or response.is_redirect):
            await response.aclose()
            code = BROKEN if response.is_server_error else REFUSED
            if response.status_code == httpx.codes.NOT_FOUND:
                code = GONE
            return await self._failed(request, wanted, code, f"it responded with status {response.status_code}")
        return response

    def _timeout_of(self, method: str, wanted: RequestId | None) -> httpx.Timeout:
        if method == "GET":
            return httpx.Timeout(CONNECT_SECONDS, read=None)  # an endless stream
        # The SDK sends nothing else during a notification, and does not close before a DELETE has ended.
        return httpx.Timeout(NOTICE_SECONDS) if wanted is None else httpx.Timeout(CONNECT_SECONDS, read=self._patience)

    async def _check(self, response: httpx.Response, wanted: RequestId) -> None:
        """Make sure that a response contains an answer, or is a stream that reports its own failure: the SDK says
        nothing to the caller then. Raises httpx.HTTPError."""
        kind = response.headers.get("content-type", "").lower()
        if kind.startswith(_EVENTS):
            assert isinstance(response.stream, httpx.AsyncByteStream)
            fail = functools.partial(self._failed, response.request, wanted, BROKEN)
            response.stream = _Answer(response.stream, fail, anyio.current_time() + self._patience)
        elif response.status_code == 202 or not kind.startswith(_JSON) or not _answers(await response.aread(), wanted):
            await response.aclose()
            raise BadAnswer(f"its response is no MCP message ({response.status_code}, {line(kind, 60) or 'no type'})")

    async def _failed(self, request: httpx.Request, wanted: RequestId | None, code: int, why: str) -> httpx.Response:
        if wanted is not None:
            error = JSONRPCError(jsonrpc="2.0", id=wanted, error=_error(code, why))
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._to_session.send(SessionMessage(JSONRPCMessage(error)))
        return httpx.Response(httpx.codes.ACCEPTED, request=request)


def _error(code: int, problem: str) -> ErrorData:
    return ErrorData(code=code, message=problem, data=_OURS)


def code_of(error: ErrorData) -> int | None:
    """This module's code for an error; None if the server itself sent the error."""
    return error.code if error.data is _OURS else None


def _answers(body: bytes, wanted: RequestId) -> bool:
    try:
        message = JSONRPCMessage.model_validate_json(body).root
    except ValueError:
        return False
    return isinstance(message, JSONRPCResponse | JSONRPCError) and str(message.id) == str(wanted)


def _why(error: httpx.HTTPError) -> str:
    return str(error) if isinstance(error, BadAnswer) else f"the connection broke ({type(error).__name__})"


class _Answer(httpx.AsyncByteStream):
    """The events of an answer. The SDK reads them until it has the result, so their end is a failure, unless they can
    be resumed by their ids. ends: when nobody waits for the result any more."""

    def __init__(self, inner: httpx.AsyncByteStream, fail: Callable[[str], Awaitable[object]], ends: float) -> None:
        self._inner = inner
        self._fail = fail
        self._ends = ends

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        resumable = False
        try:
            async for data in self._inner:
                if anyio.current_time() > self._ends:
                    raise BadAnswer("its response does not end")
                resumable = resumable or bool(_EVENT_ID.search(data))
                yield data
        except httpx.HTTPError as error:
            await self._fail(_why(error))
            raise
        if not resumable:
            await self._fail("its response ended without a result")

    async def aclose(self) -> None:
        await self._inner.aclose()


class BadAnswer(httpx.ReadError):
    """A response that cannot be used; the text says why."""


class BoundedTransport(httpx.AsyncBaseTransport):
    """Limits the size of messages: one that is too large ends its response."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        # A small compressed message could be huge when decompressed.
        request.headers["Accept-Encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx.RemoteProtocolError("unrequested compressed response")
        assert isinstance(response.stream, httpx.AsyncByteStream)
        events = response.headers.get("content-type", "").startswith(_EVENTS)
        response.stream = _Bounded(response.stream, events=events)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx.AsyncByteStream):
    """A bounded stream. events: the limit applies to each event, since the stream may be endless."""

    def __init__(self, inner: httpx.AsyncByteStream, *, events: bool) -> None:
        self._inner = inner
        self._events = events

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        size = 0
        async for data in self._inner:
            last = max(data.rfind(b"\n\n"), data.rfind(b"\n\r\n")) if self._events else -1
            size = size + len(data) if last < 0 else len(data) - last
            if size > LARGEST_MESSAGE:
                raise BadAnswer(f"it sent a message of more than {LARGEST_MESSAGE // 1024 // 1024} MB")
            yield data

    async def aclose(self) -> None:
        await self._inner.aclose()
