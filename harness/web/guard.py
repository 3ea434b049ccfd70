"""The one way to an address that the model or a stranger chose: an httpx transport.

Directly, a name is resolved once, here, between the checks and the connection: every address has to be allowed, and the
connection goes to one of these very addresses, even if the name means another one a moment later. TLS and the Host
header keep the name. Behind a proxy the proxy resolves: what can be told from the URL is checked, and what the name
means here if it means anything; where the proxy then goes is for its own rules to decide.
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
"""For one address; a host's next one is tried then."""
MOST_ADDRESSES = 4
RESOLVE_SECONDS = 10.0
PEEK_SECONDS = 2.0
"""How long a name may take that a proxy will resolve anyway."""
THREADS = 4
"""Lookups at a time."""


class PinnedBackend(PacedBackend):
    """Connects to the addresses that were checked, and to nothing else."""

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
    """A host's addresses; [] when it has none, or the answer takes too long."""
    try:
        async with asyncio.timeout(seconds):
            return await resolve(host, port)
    except (OSError, TimeoutError, UnicodeError):
        return []


class GuardedTransport(httpx.AsyncBaseTransport):
    """An httpx transport that checks every request, a redirect's too. Raises Refused, and httpx's own errors.

    route: how to reach a URL, from the network settings. resolve: asks what the system asks unless given.
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
        """Raises Refused for an address that somebody else is to reach in our place and that may not be fetched, as far
        as it can be told here: a name that means nothing here is left to them."""
        self._rules.url(str(url))
        await self._peek(url)

    async def aclose(self) -> None:
        for way in self._ways.values():
            await way.aclose()
        self._ways.clear()
        self._system.close()

    def _way(self, route: Route) -> PoolTransport:
        """One for each proxy and CA file that the settings name: a handful at most."""
        if route not in self._ways:
            proxy, ca_file = route
            backend = PinnedBackend(self._rules, self._resolve) if proxy is None else PacedBackend()
            self._ways[route] = PoolTransport(proxy, ca_file, backend)
        return self._ways[route]

    async def _peek(self, url: httpx.URL) -> None:
        """A name that means something here must be allowed here; one that does not is left to the proxy."""
        host, port = url.raw_host.decode("ascii"), port_of(url)
        found = await resolved(self._resolve, host, port, PEEK_SECONDS)
        if found:
            self._rules.addresses(host, port, found)
