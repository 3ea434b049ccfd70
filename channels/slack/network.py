"""How the adapter's HTTP sessions and its socket reach Slack: proxy and CAs as configured, nothing of the environment.

Slack's API, its files and its sockets are on different hosts, each with a route of its own. Used by api.py, socket.py.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp

from channels.network import http_session, tls_context, usable_proxy

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from channels.base import Route

CONNECTIONS = 64
CONNECT_SECONDS = 20.0
ANSWER_SECONDS = 30.0
_SLACK_DOMAINS = (".slack.com", ".slack-gov.com", ".slack-files.com", ".slack-edge.com")


class Network:
    """Of one account. Raises Fatal when a route is unusable."""

    def __init__(self, base_url: str, route: Callable[[str], Route], account: str) -> None:
        self._base = urlsplit(base_url)
        self._route = route
        self._account = account
        self._proxy_to = lru_cache(maxsize=64)(self._checked_proxy)
        own = route(base_url)
        self.context: ssl.SSLContext | None = None
        """None where the Web API is plain HTTP and no CA is configured, which is to say in tests."""
        if self._base.scheme == "https" or own.ca_file is not None:
            self.context = tls_context(own, account)
        self.proxy(base_url)

    def session(self) -> aiohttp.ClientSession:
        """A session for everything but the socket; needs a running loop."""
        timeout = aiohttp.ClientTimeout(total=CONNECT_SECONDS + ANSWER_SECONDS, connect=CONNECT_SECONDS)
        return http_session(CONNECTIONS, self.context, timeout=timeout)

    def proxy(self, url: str) -> str | None:
        """The proxy for a URL, None for a direct way."""
        parts = urlsplit(url)
        # A websocket is routed as a page of the same host.
        scheme = parts.scheme.replace("ws", "http", 1) if parts.scheme.startswith("ws") else parts.scheme
        return self._proxy_to(f"{scheme}://{parts.netloc}/")

    def is_trusted(self, url: str) -> bool:
        """Whether the bot's token may be sent there: Slack's own hosts, and the one that is configured."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        if (parts.scheme, host, parts.port) == (self._base.scheme, self._base.hostname, self._base.port):
            return True
        return parts.scheme == "https" and f".{host}".endswith(_SLACK_DOMAINS)

    def _checked_proxy(self, url: str) -> str | None:
        return usable_proxy(self._route(url), self._account)
