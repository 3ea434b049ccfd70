"""httpcore's connection pools as an httpx transport: on a network backend of our choice, or to a proxy; for guard.py.

httpx itself takes no network backend, which is where an address can be pinned.
"""

from __future__ import annotations

import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httpcore
import httpx

from harness.web.wire import PacedBackend, paced

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
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


class PoolTransport(httpx.AsyncBaseTransport):
    """One pool. backend: how it reaches a host, or the proxy. proxied: it is a proxy's."""

    def __init__(self, proxy: str | None, ca_file: Path | None, backend: httpcore.AsyncNetworkBackend) -> None:
        self.proxied = proxy is not None
        common: dict[str, Any] = {
            "ssl_context": trust(ca_file),
            "max_connections": CONNECTIONS,
            "keepalive_expiry": KEPT_SECONDS,
            "network_backend": PacedBackend(backend),
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


def trust(ca_file: Path | None) -> ssl.SSLContext:
    """The system's certificates, and the configured private CA besides."""
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context


@contextmanager
def _translated() -> Iterator[None]:
    """Only the errors' names: texts may hold a proxy's password."""
    try:
        yield
    except tuple(theirs for theirs, _ in _ERRORS) as error:
        ours = next(ours for theirs, ours in _ERRORS if isinstance(error, theirs))
        raise ours(type(error).__name__) from None
