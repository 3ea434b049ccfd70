"""The configured network route to a platform: its proxy and the CAs that TLS trusts. Used by the adapters.

An unusable setting raises Fatal, with a hint that contains no password.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import aiohttp
import httpx
from yarl import URL

from channels.errors import Fatal, Temporary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from channels.base import Route, Sink

KEPT_SECONDS = 60.0
"""How long an idle connection is kept."""
CONNECT_SECONDS = 20.0
"""Timeout for obtaining a connection, including the wait for a free one."""
DOWNLOAD_SECONDS = 180.0
_PIECE = 256 * 1024
"""Bytes of a download that are passed on at once."""
NOT_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ClientHttpProxyError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.InvalidURL,
)
"""Failures that occur before a call's request is written: it has certainly changed nothing."""


def usable_proxy(route: Route, account: str) -> str | None:
    """The proxy's URL, None for a direct connection. Raises Fatal."""
    if route.proxy is None:
        return None
    try:
        proxy = URL(route.proxy)
    except ValueError:  # its text may quote the proxy's password
        proxy = URL()
    if proxy.scheme not in ("http", "https") or not proxy.host:
        raise Fatal(
            f"the proxy of account {account} cannot be used",
            "correct network.proxy (http://host:port or https://host:port)",
        )
    return route.proxy


def tls_context(route: Route, account: str) -> ssl.SSLContext:
    """A context with httpx's CAs, the system's and the configured one, shared by all accounts that trust the same; do
    not modify it. A file that was replaced is read again. Raises Fatal."""
    files = (ssl.get_default_verify_paths().cafile, route.ca_file)
    try:
        stamps = [os.stat(file).st_mtime_ns for file in files if file is not None]
        return _made_context(route.ca_file, *stamps)
    except OSError as error:
        raise Fatal(
            f"the CA file {route.ca_file} of account {account} cannot be read: {error.strerror}",
            "correct network.ca_file: a PEM file with certificates",
        ) from error


@lru_cache(maxsize=4)
def _made_context(ca_file: Path | None, *stamps: int) -> ssl.SSLContext:
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
    return context


def http_session(
    connections: int,
    context: ssl.SSLContext | None,
    *,
    proxy: str | None = None,
    timeout: aiohttp.ClientTimeout | None = None,
) -> aiohttp.ClientSession:
    """A session with at most `connections` connections, which ignores the environment and keeps no cookies.

    context: None where no TLS is expected; if TLS is used after all, the system's CAs apply. timeout: for calls
    without their own; None is aiohttp's default. Needs a running loop.
    """
    tls = context if context is not None else True
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections, ssl=tls, keepalive_timeout=KEPT_SECONDS),
        proxy=proxy,
        timeout=timeout,
        trust_env=False,
        cookie_jar=aiohttp.DummyCookieJar(),
    )


@contextlib.asynccontextmanager
async def download(
    session: aiohttp.ClientSession, url: str | URL, *, headers: dict[str, str] | None = None, **more: Any
) -> AsyncIterator[aiohttp.ClientResponse]:
    """A file server's response, which has to be read within DOWNLOAD_SECONDS.

    more: further arguments of `session.get`. Raises Temporary when it breaks off; its text contains no URL, which may
    be the only credential.
    """
    timeout = aiohttp.ClientTimeout(total=DOWNLOAD_SECONDS, connect=CONNECT_SECONDS)
    headers = {"Accept-Encoding": "identity", **(headers or {})}
    try:
        async with (
            asyncio.timeout(DOWNLOAD_SECONDS),
            session.get(url, headers=headers, allow_redirects=False, timeout=timeout, **more) as response,
        ):
            yield response
    except (TimeoutError, aiohttp.ClientError) as error:
        raise Temporary(f"the download was interrupted ({type(error).__name__})") from None


async def pour(response: aiohttp.ClientResponse, sink: Sink) -> None:
    """Pass the response's bytes on as they arrive."""
    async for piece in response.content.iter_chunked(_PIECE):
        await sink.write(piece)
