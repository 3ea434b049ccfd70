"""How the adapter's HTTP sessions reach the Bot API: proxy and CAs as configured, and the token out of sight.

The Bot API carries the token in the URL's path, and URLs end up in logs, exceptions and tracebacks. So the adapter and
the SDK only ever know `HIDDEN_TOKEN`; `url_of` puts the real one in right before the request is written.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import aiohttp
import httpx
from yarl import URL

from channels.errors import Fatal

if TYPE_CHECKING:
    import ssl

    from pydantic import SecretStr

    from channels.base import Route

HIDDEN_TOKEN = "TOKEN"
KEPT_SECONDS = 60.0
"""How long an idle connection is kept."""


class Network:
    """Makes sessions to one Bot API server over one route. Raises Fatal when the route itself is unusable."""

    def __init__(self, base_url: str, token: SecretStr, route: Route, account: str) -> None:
        self._token = token
        self._proxy = _proxy(route.proxy, account)
        self._context: ssl.SSLContext | None = None
        if base_url.startswith("https:") or (route.proxy or "").startswith("https:"):
            self._context = _tls_context(route, account)
        self.url_of = lru_cache(maxsize=64)(self._with_token)
        """The real URL of one that holds the placeholder."""

    def session(self, connections: int) -> aiohttp.ClientSession:
        """A session of its own with at most `connections` connections; needs a running loop."""
        connector = aiohttp.TCPConnector(limit=connections, ssl=self._context or False, keepalive_timeout=KEPT_SECONDS)
        return aiohttp.ClientSession(
            connector=connector, proxy=self._proxy, trust_env=False, cookie_jar=aiohttp.DummyCookieJar()
        )

    def _with_token(self, url: str) -> URL:
        return URL(url.replace(f"/bot{HIDDEN_TOKEN}/", f"/bot{self._token.get_secret_value()}/", 1), encoded=True)


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
