"""Which connections of a simulator's clients are open, so that a test can see that a gateway closed its own."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    import asyncio

    from aiohttp import web


class OpenConnections:
    """Told of each request; a connection counts until either side closes it."""

    def __init__(self) -> None:
        self._transports: WeakSet[asyncio.BaseTransport] = WeakSet()

    def note(self, request: web.Request) -> None:
        if request.transport is not None:
            self._transports.add(request.transport)

    @property
    def count(self) -> int:
        return sum(not transport.is_closing() for transport in self._transports)
