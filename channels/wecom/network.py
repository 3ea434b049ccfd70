"""How the adapter reaches the platform: proxy and CAs as configured, for the websocket and for downloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import httpx

from channels.errors import Fatal

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from channels.base import Route


class Network:
    """Routes of one account. Methods raise Fatal when a route itself is unusable."""

    def __init__(self, route: Callable[[str], Route], account: str) -> None:
        self._route = route
        self._account = account
        self._contexts: dict[object, ssl.SSLContext] = {}

    def websocket(self, url: str) -> dict[str, Any]:
        """Arguments for `websockets.connect`."""
        route = self._route(url)
        proxy = self._proxy(route)
        arguments: dict[str, Any] = {"proxy": proxy}
        if url.startswith("wss:"):
            arguments["ssl"] = self._context(route)
        if proxy is not None and proxy.startswith("https:"):
            arguments["proxy_ssl"] = self._context(route)
        return arguments

    def session(self, url: str) -> aiohttp.ClientSession:
        """An HTTP session for one download; needs a running loop."""
        route = self._route(url)
        proxy = self._proxy(route)
        tls = url.startswith("https:") or (proxy or "").startswith("https:")
        connector = aiohttp.TCPConnector(ssl=self._context(route) if tls else False, limit=1)
        return aiohttp.ClientSession(
            connector=connector, proxy=proxy, trust_env=False, cookie_jar=aiohttp.DummyCookieJar()
        )

    def _proxy(self, route: Route) -> str | None:
        if route.proxy is None:
            return None
        try:
            parts = urlsplit(route.proxy)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        except ValueError:  # its text may quote the proxy's password
            usable = False
        if not usable:
            raise Fatal(
                f"the proxy of account {self._account} cannot be used",
                "correct network.proxy (http://host:port or https://host:port)",
            )
        return route.proxy

    def _context(self, route: Route) -> ssl.SSLContext:
        """httpx's CAs, the system's and the configured one."""
        known = self._contexts.get(route.ca_file)
        if known is not None:
            return known
        context = httpx.create_ssl_context(trust_env=False)
        context.load_default_certs()
        if route.ca_file is not None:
            try:
                context.load_verify_locations(cafile=route.ca_file)
            except OSError as error:
                raise Fatal(
                    f"the CA file {route.ca_file} of account {self._account} cannot be read: {error.strerror}",
                    "correct network.ca_file: a PEM file with certificates",
                ) from error
        self._contexts[route.ca_file] = context
        return context
