"""The only way to an address that the model or a stranger chose: an httpx transport.

For direct connections, a name is resolved once, here, between the checks and the connection: every address must be
allowed, and the connection is made to one of exactly these addresses, even if the name resolves to another one a moment
later. TLS and the Host header keep the name. With a proxy, the proxy resolves: the URL is checked, and the name's
addresses if it resolves here; where the proxy then connects is up to its own rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import httpcore
import httpx

from harness.web.addresses import Rules, port_of
from harness.web.pools import PacedBackend, PoolTransport
from sandbox.egress.guard import Names

Route = tuple[str | None, Path | None]
"""(proxy URL or None for direct, file of extra CAs or None)"""
Resolve = Callable[[str, int], Awaitable[list[str]]]
"""(host, port) -> addresses. Raises OSError for a name that has none."""
CONNECT_SECONDS = 8.0
"""Per address; then the host's next one is tried."""
MOST_ADDRESSES = 4
RESOLVE_SECONDS = 10.0
PEEK_SECONDS = 2.0
"""Time limit for resolving a name that a proxy will resolve anyway."""
THREADS = 4
"""Concurrent lookups."""


class PinnedBackend(PacedBackend):
    """Connects only to the addresses that were checked."""

    def __init__(self, rules: Rules, resolve: Resolve) -> None:
        self._rules = rules
        self._resolve = resolve

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = await resolved(self._resolve, host, port, RESOLVE_SECONDS)
        self._rules.addresses(host, port, addresses)
        seconds = CONNECT_SECONDS if timeout is None else min(timeout, CONNECT_SECONDS)
        *others, last = addresses[:MOST_ADDRESSES]
        for address in others:
            try:
                return await super().connect_tcp(address, port, seconds, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await super().connect_tcp(last, port, seconds, local_address, socket_options)


async def resolved(resolve: Resolve, host: str, port: int, seconds: float) -> list[str]:
    """A host's addresses; [] if it has none, or the lookup takes too long."""
    try:
        async with asyncio.timeout(seconds):
            return await resolve(host, port)
    except (OSError, TimeoutError, UnicodeError):
        return []


class GuardedTransport(httpx.AsyncBaseTransport):
    """An httpx transport that checks every request, including redirects. Raises Refused, and httpx's own errors.

    route: how to reach a URL, from the network settings. resolve: the system's resolver by default.
    """

    def __init__(self, rules: Rules, route: Callable[[str], Route], resolve: Resolve | None = None) -> None:
        self._rules = rules
        self._route = route
        self._system = Names(threads=THREADS)
        self._resolve: Resolve = self._system.resolve if resolve is None else resolve
        self._ways: dict[Route, PoolTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = self._rules.url(str(request.url))
        way = self._way(self._route(str(url)))
        if way.proxied:
            await self._peek(url)
        return await way.handle_async_request(request)

    async def check(self, url: httpx.URL) -> None:
        """Raise Refused for an address that a third party would fetch for us but that may not be fetched, as far as can
        be determined here: a name that does not resolve here is left to them."""
        self._rules.url(str(url))
        await self._peek(url)

    async def aclose(self) -> None:
        for way in self._ways.values():
            await way.aclose()
        self._ways.clear()
        self._system.close()

    def _way(self, route: Route) -> PoolTransport:
        """The pool for a route: one per configured proxy and CA file, a handful at most."""
        if route not in self._ways:
            proxy, ca_file = route
            backend = PinnedBackend(self._rules, self._resolve) if proxy is None else PacedBackend()
            self._ways[route] = PoolTransport(proxy, ca_file, backend)
        return self._ways[route]

    async def _peek(self, url: httpx.URL) -> None:
        """Check a name that resolves here; one that does not is left to the proxy."""
        host, port = url.raw_host.decode("ascii"), port_of(url)
        found = await resolved(self._resolve, host, port, PEEK_SECONDS)
        if found:
            self._rules.addresses(host, port, found)
