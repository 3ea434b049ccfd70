"""How the adapter's HTTP sessions reach the Bot API: proxy and CAs as configured, and the token out of sight.

The Bot API carries the token in the URL's path, and URLs end up in logs, exceptions and tracebacks. So the adapter and
the SDK only ever know `HIDDEN_TOKEN`; `url_of` puts the real one in right before the request is written.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from yarl import URL

from channels.network import http_session, tls_context, usable_proxy

if TYPE_CHECKING:
    import ssl

    import aiohttp
    from pydantic import SecretStr

    from channels.base import Route

HIDDEN_TOKEN = "TOKEN"


class Network:
    """Makes sessions to one Bot API server over one route. Raises Fatal when the route itself is unusable."""

    def __init__(self, base_url: str, token: SecretStr, route: Route, account: str) -> None:
        self._token = token
        self._proxy = usable_proxy(route, account)
        self._context: ssl.SSLContext | None = None
        if base_url.startswith("https:") or (route.proxy or "").startswith("https:"):
            self._context = tls_context(route, account)
        self.url_of = lru_cache(maxsize=64)(self._with_token)
        """The real URL of one that holds the placeholder."""

    def session(self, connections: int) -> aiohttp.ClientSession:
        """A session of its own with at most `connections` connections; needs a running loop."""
        return http_session(connections, self._context, proxy=self._proxy)

    def _with_token(self, url: str) -> URL:
        return URL(url.replace(f"/bot{HIDDEN_TOKEN}/", f"/bot{self._token.get_secret_value()}/", 1), encoded=True)
