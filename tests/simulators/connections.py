"""The connections of a simulator's clients: the number of open ones, to check that a gateway closes its own; resets."""

import asyncio
import socket
import struct
from weakref import WeakSet

from aiohttp import web


class OpenConnections:
    """Counts open connections from the requests; a connection counts until either side closes it."""

    def __init__(self) -> None:
        self._transports: WeakSet[asyncio.BaseTransport] = WeakSet()

    def note(self, request: web.Request) -> None:
        if request.transport is not None:
            self._transports.add(request.transport)

    @property
    def count(self) -> int:
        return sum(not transport.is_closing() for transport in self._transports)


def reset_connection(transport: asyncio.BaseTransport | None) -> None:
    """Close with RST instead of FIN, like a connection that broke in transit."""
    if transport is None:
        return
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()
