"""httpcore's connection pools as an httpx transport: on a network backend of choice, or to a proxy, at a bounded cost.

httpx itself takes no network backend, which is where an address can be pinned. While an answer is read others get their
turn, and neither its head nor its parts go on without end: httpcore's parser makes everything of what it was given
before it reads again, some 50 microseconds for a chunk of one byte or an answer 1xx, and nobody else works meanwhile.
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
"""What comes first wins."""

MOST_HEAD = 64 * 1024
"""Bytes before the answer's body, with all answers 1xx."""
HEAD_PIECE = 2 * 1024
"""Bytes that the parser gets at a time until the body begins."""
FREE_PARTS, LEAST_PART = 4000, 64
"""A body comes in so many parts, and in more only where they have so many bytes each on an average."""
FREE_WIRE, MOST_WIRE = 256 * 1024, 4
"""Bytes for a body on the wire: so many, and so many times its own."""
PARTS_IN_A_ROW = 32
_WIRE = "antler_wire"


class PacedBackend(httpcore.AnyIOBackend):
    """Connections of which each is a PacedStream."""

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
    """A connection that gives little at a time. taken: bytes that were read of an answer's head, then of its body."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self.taken = 0
        self.in_head = True

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        await asyncio.sleep(0)
        data = await self._stream.read(min(max_bytes, HEAD_PIECE) if self.in_head else max_bytes, timeout)
        self.taken += len(data)
        if self.in_head and self.taken > MOST_HEAD:
            raise httpcore.RemoteProtocolError("the answer's head has no end")
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
    """The parts of a body. Raises RemoteProtocolError for one that is made to waste time."""
    wire: PacedStream = answer.extensions["network_stream"].get_extra_info(_WIRE)
    wire.taken, wire.in_head = 0, False
    parts: AsyncIterable[bytes] = answer.aiter_stream()
    number = size = 0
    async for part in parts:
        number, size = number + 1, size + len(part)
        if number > FREE_PARTS + size // LEAST_PART or wire.taken > FREE_WIRE + MOST_WIRE * size:
            raise httpcore.RemoteProtocolError("the answer's body is more packaging than content")
        if number % PARTS_IN_A_ROW == 0:
            await asyncio.sleep(0)
        yield part


class PoolTransport(httpx.AsyncBaseTransport):
    """One pool. backend: how it reaches a host, or the proxy. proxied: it is a proxy's."""

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
    """Its password goes to it alone."""
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
    """Only the errors' names: texts may hold a proxy's password."""
    try:
        yield
    except tuple(theirs for theirs, _ in _ERRORS) as error:
        ours = next(ours for theirs, ours in _ERRORS if isinstance(error, theirs))
        raise ours(type(error).__name__) from None
