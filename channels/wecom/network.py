"""How the adapter reaches the platform: proxy and CAs as configured, for the websocket and for downloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from channels.network import http_session, tls_context, usable_proxy

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from pathlib import Path

    import aiohttp

    from channels.base import Route


class Network:
    """Routes of one account. Methods raise Fatal when a route itself is unusable."""

    def __init__(self, route: Callable[[str], Route], account: str) -> None:
        self._route = route
        self._account = account
        self._contexts: dict[Path | None, ssl.SSLContext] = {}

    def websocket(self, url: str) -> dict[str, Any]:
        """Arguments for `websockets.connect`."""
        route = self._route(url)
        proxy = usable_proxy(route, self._account)
        arguments: dict[str, Any] = {"proxy": proxy}
        if url.startswith("wss:"):
            arguments["ssl"] = self._context(route)
        if proxy is not None and proxy.startswith("https:"):
            arguments["proxy_ssl"] = self._context(route)
        return arguments

    def session(self, url: str) -> aiohttp.ClientSession:
        """An HTTP session for one download; needs a running loop."""
        route = self._route(url)
        proxy = usable_proxy(route, self._account)
        tls = url.startswith("https:") or (proxy or "").startswith("https:")
        return http_session(1, self._context(route) if tls else None, proxy=proxy)

    def _context(self, route: Route) -> ssl.SSLContext:
        if route.ca_file not in self._contexts:
            self._contexts[route.ca_file] = tls_context(route, self._account)
        return self._contexts[route.ca_file]
