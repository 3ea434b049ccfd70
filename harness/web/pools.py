"""httpcore's connection pools as an httpx transport: on a chosen network backend, or to a proxy, at a bounded cost.

httpx itself accepts no network backend, which is where an address can be pinned. Other tasks get their turn while a
response is read, and neither its head nor its body can go on forever: httpcore's parser handles all that it received
before it reads again, some 50 microseconds for a one-byte chunk or a 1xx response, and blocks everything meanwhile.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httpcore
import httpx

from sandbox.egress.tls import trust

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
    from pathlib import Path


CONNECTIONS = 64
KEPT_SECONDS = 5.0
_ERRORS: tuple[tuple[type[Exception], type[httpx.TransportError]], ...] = (
    (httpcore.ConnectTimeout, httpx.ConnectTimeout),
    (httpcore.TimeoutException, httpx.ReadTimeout),
    (httpcore.ProxyError, httpx.ProxyError),
    (httpcore.ConnectError, httpx.ConnectError),
    (httpcore.NetworkError, httpx.ReadError),
    (httpcore.ProtocolError, httpx.RemoteProtocolError),
)
"""The first match wins."""

MOST_HEAD = 64 * 1024
"""Bytes before the response's body, including all 1xx responses."""
HEAD_PIECE = 2 * 1024
"""Bytes that the parser receives at once until the body begins."""
FREE_PARTS, LEAST_PART = 4000, 64
"""A body may have this many parts, and more only if they average this many bytes."""
FREE_WIRE, MOST_WIRE = 256 * 1024, 4
"""Bytes of a body on the wire: this many, plus this multiple of its own size."""
PARTS_IN_A_ROW = 32
_WIRE = "antler_wire"


class PacedBackend(httpcore.AnyIOBackend):
    """A backend whose connections are PacedStreams."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return PacedStream(await super().connect_tcp(host, port, timeout, local_address, socket_options))


class PacedStream(httpcore.AsyncNetworkStream):
    """A connection that returns little at once. taken: bytes read of a response's head, then of its body."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self.taken = 0
        self.in_head = True

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        await asyncio.sleep(0)
        data = await self._stream.read(min(max_bytes, HEAD_PIECE) if self.in_head else max_bytes, timeout)
        self.taken += len(data)
        if self.in_head and self.taken > MOST_HEAD:
            raise httpcore.RemoteProtocolError("the response header has no end")
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.taken, self.in_head = 0, True
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return PacedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self if info == _WIRE else self._stream.get_extra_info(info)


async def paced(answer: httpcore.Response) -> AsyncIterator[bytes]:
    """The parts of a body. Raises RemoteProtocolError for a body made to waste time."""
    wire: PacedStream = answer.extensions["network_stream"].get_extra_info(_WIRE)
    wire.taken, wire.in_head = 0, False
    parts: AsyncIterable[bytes] = answer.aiter_stream()
    number = size = 0
    async for part in parts:
        number, size = number + 1, size + len(part)
        if number > FREE_PARTS + size // LEAST_PART or wire.taken > FREE_WIRE + MOST_WIRE * size:
            raise httpcore.RemoteProtocolError("the response body has more chunk overhead than content")
        if number % PARTS_IN_A_ROW == 0:
            await asyncio.sleep(0)
        yield part


class PoolTransport(httpx.AsyncBaseTransport):
    """One pool. backend: how it reaches a host, or the proxy. proxied: it uses a proxy."""

    def __init__(self, proxy: str | None, ca_file: Path | None, backend: PacedBackend) -> None:
        self.proxied = proxy is not None
        common: dict[str, Any] = {
            "ssl_context": trust(ca_file),
            "max_connections": CONNECTIONS,
            "keepalive_expiry": KEPT_SECONDS,
            "network_backend": backend,
        }
        self._pool = httpcore.AsyncConnectionPool(**common) if proxy is None else _proxied(proxy, ca_file, common)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        asked = httpcore.Request(
            method=request.method,
            url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _translated():
            answer = await self._pool.handle_async_request(asked)
        return httpx.Response(
            answer.status, headers=answer.headers, stream=_Body(answer), extensions=answer.extensions, request=request
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated():
            async for part in paced(self._answer):
                yield part

    async def aclose(self) -> None:
        await self._answer.aclose()


def _proxied(proxy: str, ca_file: Path | None, common: dict[str, Any]) -> httpcore.AsyncHTTPProxy:
    """A pool for a proxy, whose password is sent only to it."""
    url = httpx.URL(proxy)
    auth = (unquote(url.username), unquote(url.password)) if url.userinfo else None
    return httpcore.AsyncHTTPProxy(
        proxy_url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=b"/"),
        proxy_auth=auth,
        proxy_ssl_context=trust(ca_file) if url.scheme == "https" else None,
        **common,
    )


@contextmanager
def _translated() -> Iterator[None]:
    """Translate errors, keeping only their names: texts may contain a proxy's password."""
    try:
        yield
    except tuple(theirs for theirs, _ in _ERRORS) as error:
        ours = next(ours for theirs, ours in _ERRORS if isinstance(error, theirs))
        raise ours(type(error).__name__) from None
