"""How the adapter's HTTP clients reach the Bot API: proxy and CAs as configured, and the token out of sight.

The Bot API carries the token in the URL's path, and URLs end up in logs, exceptions and tracebacks. So the clients and
the SDK only ever know `HIDDEN_TOKEN`; the transport puts the real one in right before the request is written.
"""

from __future__ import annotations

import ssl
from functools import lru_cache
from typing import TYPE_CHECKING

import httpx

from channels.errors import Fatal

if TYPE_CHECKING:
    from pydantic import SecretStr

    from channels.base import Route

HIDDEN_TOKEN = "TOKEN"
_PLACE = f"/bot{HIDDEN_TOKEN}/".encode()


class TokenTransport(httpx.AsyncBaseTransport):
    """Replaces the placeholder in a request's path with the token and passes the request on."""

    def __init__(self, inner: httpx.AsyncBaseTransport, token: SecretStr) -> None:
        self._inner = inner
        self._token = token
        self._real_url = lru_cache(maxsize=64)(self._with_token)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._inner.handle_async_request(
            httpx.Request(
                request.method,
                self._real_url(request.url),
                headers=request.headers,
                stream=request.stream,
                extensions=request.extensions,
            )
        )

    def _with_token(self, url: httpx.URL) -> httpx.URL:
        real = f"/bot{self._token.get_secret_value()}/".encode()
        return url.copy_with(raw_path=url.raw_path.replace(_PLACE, real, 1))

    async def aclose(self) -> None:
        await self._inner.aclose()


class Network:
    """Makes transports to one Bot API server over one route. Raises Fatal when the route itself is unusable."""

    def __init__(self, base_url: str, token: SecretStr, route: Route, account: str) -> None:
        self._token = token
        self._proxy = route.proxy
        self._account = account
        self._tls: ssl.SSLContext | bool = False
        if base_url.startswith("https:") or (route.proxy or "").startswith("https:"):
            self._tls = self._tls_context(route)

    def transport(self, connections: int) -> httpx.AsyncBaseTransport:
        """A transport of its own with at most `connections` connections, idle ones kept for a minute."""
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=60.0)
        try:
            inner = httpx.AsyncHTTPTransport(verify=self._tls, trust_env=False, limits=limits, proxy=self._proxy_of())
        except (ValueError, ImportError, httpx.InvalidURL):  # the text may quote the proxy's password
            raise Fatal(
                f"the proxy of account {self._account} cannot be used",
                "correct network.proxy (http://host:port or https://host:port)",
            ) from None
        return TokenTransport(inner, self._token)

    def _proxy_of(self) -> httpx.Proxy | None:
        if self._proxy is None:
            return None
        secure = self._proxy.startswith("https:") and isinstance(self._tls, ssl.SSLContext)
        return httpx.Proxy(self._proxy, ssl_context=self._tls if secure else None)  # type: ignore[arg-type]

    def _tls_context(self, route: Route) -> ssl.SSLContext:
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
        return context
