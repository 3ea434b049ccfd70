"""HTTP for the model clients, based on aiohttp, which takes a fraction of the CPU of httpx's own."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import contextmanager, suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any

import aiohttp
import httpx2
from yarl import URL

from sandbox.egress.tls import trust

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Coroutine, Iterator
    from pathlib import Path

Route = tuple[str | None, "Path | None"]
"""(proxy URL, extra CA file), from the network settings for one model."""

CONNECT_SECONDS = 15.0
MAX_CONNECTIONS = 500
PACE = 0.05
"""Seconds between two reads of an event stream: data arriving in between is handled together, unnoticeably."""
KEPT_SECONDS = 30.0
"""Lifetime of an idle connection."""
PIECE = 64 * 1024
MOST_ANSWER, MOST_ERROR = 64 * 1024 * 1024, 64 * 1024
"""Bytes of an unpacked answer, and of an error, of which the rest is left out: no model says that much, but a broken or
hostile server never ends."""


def http_client(
    seconds: float, route: Route, kind: type[httpx2.AsyncClient] = httpx2.AsyncClient
) -> httpx2.AsyncClient:
    """A model's client, which ignores the environment. seconds: without a byte from the provider."""
    proxy, ca_file = route
    return kind(
        trust_env=False,
        transport=AiohttpTransport(trust(ca_file), proxy, MAX_CONNECTIONS),
        timeout=http_timeout(seconds),
        follow_redirects=True,
    )


def http_timeout(seconds: float) -> httpx2.Timeout:
    """The timeouts. seconds: without a byte; a connection must be made sooner."""
    return httpx2.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """proxy: its URL. connections: concurrent ones at most; a request waits its `pool` timeout for a free one."""

    def __init__(self, tls: ssl.SSLContext, proxy: str | None, connections: int) -> None:
        self._tls = tls
        self._proxy = None if proxy is None else URL(proxy)
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["Accept-Encoding"] = "gzip"
        limits = request.extensions.get("timeout", {})
        timeout = aiohttp.ClientTimeout(
            connect=limits.get("pool"), sock_connect=limits.get("connect"), sock_read=limits.get("read")
        )
        with _translated():
            asking = self._opened().request(
                request.method,
                URL(str(request.url), encoded=True),
                headers=request.headers.multi_items(),
                data=await request.aread() or None,
                timeout=timeout,
                allow_redirects=False,
            )
            response = await _apart(asking)
        packed = response.headers.get("content-encoding", "").lower() == "gzip"
        headers = [each for each in response.raw_headers if not packed or each[0].lower() != b"content-encoding"]
        return httpx2.Response(response.status, headers=headers, stream=_Body(response, packed), request=request)

    async def aclose(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _opened(self) -> aiohttp.ClientSession:
        """The session, created at the first request since it needs a running loop."""
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._tls, limit=self._connections, keepalive_timeout=KEPT_SECONDS)
            self._session = aiohttp.ClientSession(
                connector=connector,
                proxy=self._proxy,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session


async def _apart(asking: Coroutine[Any, Any, aiohttp.ClientResponse]) -> aiohttp.ClientResponse:
    """Send a request in an empty context. The context in which a connection is made lives as long as the connection,
    and the caller's context holds the whole turn: its graph, and all messages of its thread."""
    task = asyncio.get_running_loop().create_task(asking, context=Context())
    try:
        return await task
    except asyncio.CancelledError:
        if task.done() and not task.cancelled() and task.exception() is None:
            task.result().close()
        raise


class _Body(httpx2.AsyncByteStream):
    """A bounded body. packed: with gzip, which is unpacked here in small pieces."""

    def __init__(self, response: aiohttp.ClientResponse, packed: bool) -> None:
        self._response = response
        self._unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16) if packed else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        content, paced = self._response.content, self._response.content_type == "text/event-stream"
        left = MOST_ANSWER if self._response.ok else MOST_ERROR
        with _translated():
            async for data in content.iter_any():
                for piece in self._pieces(data):
                    left -= len(piece)
                    if left < 0 and not self._response.ok:
                        return
                    if left < 0:
                        raise httpx2.ReadError(f"an answer of more than {MOST_ANSWER} bytes")
                    yield piece
                    if self._unpacker is not None:  # there may be a thousand pieces for each one received
                        await asyncio.sleep(0)
                if paced:
                    await _until_more(content)

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        if self._unpacker is None:
            yield data
            return
        try:
            while data:
                yield self._unpacker.decompress(data, PIECE)
                data = self._unpacker.unconsumed_tail
        except zlib.error:
            raise httpx2.DecodingError("the answer cannot be unpacked") from None

    async def aclose(self) -> None:
        self._response.release() if self._response.content.at_eof() else self._response.close()


async def _until_more(content: aiohttp.StreamReader) -> None:
    """Wait for PACE, or for the end if it comes first, which must not be delayed."""
    with suppress(TimeoutError):
        async with asyncio.timeout(PACE):
            await content.wait_eof()


@contextmanager
def _translated() -> Iterator[None]:
    """Translate errors to httpx's, which SDKs recognize. Only their names: texts may contain a proxy's password."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise httpx2.ConnectTimeout(_name(error)) from None
    except TimeoutError as error:
        raise httpx2.ReadTimeout(_name(error)) from None
    except (aiohttp.ClientHttpProxyError, aiohttp.ClientProxyConnectionError) as error:
        raise httpx2.ProxyError(_name(error)) from None
    except aiohttp.ClientConnectorError as error:
        raise httpx2.ConnectError(_name(error)) from None
    except (aiohttp.ClientError, OSError) as error:
        raise httpx2.ReadError(_name(error)) from None


def _name(error: Exception) -> str:
    return type(error).__name__
