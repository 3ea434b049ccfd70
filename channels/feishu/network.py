"""How the adapter reaches the open platform: one session, with proxy and CAs as configured for each URL. For api.py."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from channels.network import http_session, tls_context, usable_proxy

if TYPE_CHECKING:
    from collections.abc import Callable

    import aiohttp

    from channels.base import Route

CONNECTIONS = 64


class Network:
    """The app's HTTP session, calls and websocket alike. Raises Fatal when the configured route is unusable.

    The session is made at the first use, since it needs a running loop.
    """

    def __init__(self, account: str, root: str, route: Callable[[str], Route]) -> None:
        self._account = account
        self._route = route
        # One trust store for all hosts of the platform: the socket's host is only known once it is connected.
        self._context = tls_context(route(root), account)
        self.proxy_for(root)
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            compact = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))
            self._session = http_session(CONNECTIONS, self._context, json_serialize=compact)
        return self._session

    def proxy_for(self, url: str) -> str | None:
        """The proxy for a URL of the platform; a websocket's host counts like a web page's."""
        asked = url.replace("ws", "http", 1) if url.startswith("ws") else url
        return usable_proxy(self._route(asked), self._account)

    async def close(self) -> None:
        """Idempotent."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()
