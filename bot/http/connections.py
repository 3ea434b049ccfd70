"""Connections of the listener: how long one may take to send a request, and how many an address may have."""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections import Counter
from typing import TYPE_CHECKING, Any

import h11
from cachetools import TTLCache
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

log = logging.getLogger(__name__)

HEAD_SECONDS = 10.0
"""Seconds within which the head of a request must arrive: of the first one since the connection's beginning, of others
since the previous answer."""
BODY_SECONDS = 60.0
"""Seconds after which a connection that sends no more of the body it announced is closed."""
MOST_OF_ADDRESS = 250
"""Connections of one address, half of all, so that no single machine takes the place of all others."""
MOST_OPEN = 600
"""Connections of all addresses, more than the server answers. Further ones are closed at once: each takes one of the
process's files, even before its TLS handshake."""
TELL_SECONDS = 60.0
"""Seconds between two warnings about the same limit: who meets it tries again and again."""


class Addresses:
    """The number of connections per address on one listener. proxies: networks whose addresses may have any number."""

    def __init__(self, proxies: Sequence[str]) -> None:
        self._proxies = [ipaddress.ip_network(each) for each in proxies]
        self._open: Counter[str | None] = Counter()
        self._told: TTLCache[str, None] = TTLCache(1000, TELL_SECONDS)

    def counted(self, host: str) -> str | None:
        """The key under which connections of this address are counted, None for those of proxies."""
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return host
        if any(address in network for network in self._proxies):
            return None
        # The owner of one IPv6 address has all 2^64 of its network.
        return str(address if address.version == 4 else ipaddress.ip_network((address, 64), strict=False))

    def add(self, counted: str | None) -> bool:
        """Count one more connection, unless it is one too many: then return False."""
        if counted is not None and self._open[counted] >= MOST_OF_ADDRESS:
            self._tell(counted, f"{counted} has {MOST_OF_ADDRESS} connections, which is the limit")
        elif self._open.total() >= MOST_OPEN:
            self._tell("", f"there are {MOST_OPEN} connections, which is the limit")
        else:
            self._open[counted] += 1
            return True
        return False

    def _tell(self, about: str, text: str) -> None:
        if about not in self._told:
            self._told[about] = None
            log.warning("%s", text)

    def remove(self, counted: str | None) -> None:
        self._open[counted] -= 1
        if not self._open[counted]:
            del self._open[counted]


class Entrance(socket.socket):
    """A listening socket, in the place of the given one, that counts connections as soon as they are accepted."""

    def __init__(self, bound: socket.socket, addresses: Addresses) -> None:
        super().__init__(fileno=bound.detach())
        self._addresses = addresses

    def accept(self) -> tuple[socket.socket, Any]:
        """Raises ConnectionAbortedError for one connection too many."""
        accepted, peer = super().accept()
        counted = self._addresses.counted(peer[0])
        if not self._addresses.add(counted):
            accepted.close()
            raise ConnectionAbortedError
        return _Accepted(accepted, self._addresses, counted), peer


class _Accepted(socket.socket):
    def __init__(self, accepted: socket.socket, addresses: Addresses, counted: str | None) -> None:
        super().__init__(fileno=accepted.detach())
        self._addresses = addresses
        self._counted = counted

    def close(self) -> None:
        if self.fileno() >= 0:
            self._addresses.remove(self._counted)
        super().close()


class Connection(H11Protocol):
    _waiting: asyncio.TimerHandle | None = None
    _awaited: Any = None
    """What is awaited: h11.IDLE for a head, h11.SEND_BODY for a body."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._awaited is h11.SEND_BODY:
            self._wait_no_more()  # data arrived: the time starts again
        self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def _wait(self) -> None:
        """Limit the time for what the client must send now; between requests, uvicorn's keep-alive applies too."""
        state = self.conn.their_state
        if state is self._awaited:
            return
        self._wait_no_more()
        if state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing():
            self._awaited = state
            seconds = HEAD_SECONDS if state is h11.IDLE else BODY_SECONDS
            self._waiting = self.loop.call_later(seconds, self._waited)

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting = self._awaited = None

    def _waited(self) -> None:
        self._waiting = self._awaited = None
        if self.flow.read_paused:  # reading is paused on our side
            self._wait()
        else:
            self.transport.abort()
