"""How the adapter reaches the open platform: one session, with proxy and CAs as configured for each URL. For api.py."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import aiohttp
import httpx
from yarl import URL

from channels.errors import Fatal

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from channels.base import Route

CONNECTIONS = 64
KEPT_SECONDS = 60.0
"""How long an idle connection is kept."""


class Network:
    """The app's HTTP session, calls and websocket alike. Raises Fatal when the configured route is unusable.

    The session is made at the first use, since it needs a running loop.
    """

    def __init__(self, account: str, root: str, route: Callable[[str], Route]) -> None:
        self._account = account
        self._route = route
        # One trust store for all hosts of the platform: the socket's host is only known once it is connected.
        self._context = _tls_context(route(root), account)
        self.proxy_for(root)
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=CONNECTIONS, ssl=self._context, keepalive_timeout=KEPT_SECONDS)
            self._session = aiohttp.ClientSession(
                connector=connector,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                json_serialize=partial(json.dumps, ensure_ascii=False, separators=(",", ":")),
            )
        return self._session

    def proxy_for(self, url: str) -> URL | None:
        """The proxy for a URL of the platform; a websocket's host counts like a web page's."""
        asked = url.replace("ws", "http", 1) if url.startswith("ws") else url
        return _proxy(self._route(asked).proxy, self._account)

    async def close(self) -> None:
        """Idempotent."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _proxy(url: str | None, account: str) -> URL | None:
    if url is None:
        return None
    try:
        proxy = URL(url)
    except ValueError:  # its text may quote the proxy's password
        proxy = URL()
    if proxy.scheme not in ("http", "https") or not proxy.host:
        raise Fatal(
            f"the proxy of account {account} cannot be used",
            "correct network.proxy (http://host:port or https://host:port)",
        )
    return proxy


def _tls_context(route: Route, account: str) -> ssl.SSLContext:
    """httpx's CAs, the system's and the configured one."""
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    if route.ca_file is not None:
        try:
            context.load_verify_locations(cafile=route.ca_file)
        except OSError as error:
            raise Fatal(
                f"the CA file {route.ca_file} of account {account} cannot be read: {error.strerror}",
                "correct network.ca_file: a PEM file with certificates",
            ) from error
    return context
