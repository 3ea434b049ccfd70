"""Connections of the listener: how long one may take to send a request, and how many an address may have."""

from __future__ import annotations

import ipaddress
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

import h11
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


class Addresses:
    """The number of connections per address on one listener. proxies: networks whose addresses may have any number."""

    def __init__(self, proxies: Sequence[str]) -> None:
        self._proxies = [ipaddress.ip_network(each) for each in proxies]
        self._open: Counter[str] = Counter()

    def counted(self, host: str) -> str | None:
        """The key under which connections of this address are counted, None where they are not."""
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return host
        if any(address in network for network in self._proxies):
            return None
        # The owner of one IPv6 address has all 2^64 of its network.
        return str(address if address.version == 4 else ipaddress.ip_network((address, 64), strict=False))

    def add(self, counted: str) -> bool:
        """Count one more connection. Returns False for one too many."""
        self._open[counted] += 1
        return self._open[counted] <= MOST_OF_ADDRESS

    def remove(self, counted: str) -> None:
        self._open[counted] -= 1
        if not self._open[counted]:
            del self._open[counted]


class Connection(H11Protocol):
    """One connection. addresses: those of its listener."""

    addresses: Addresses
    _counted: str | None = None
    _waiting: asyncio.TimerHandle | None = None
    _awaited: Any = None
    """What is awaited: h11.IDLE for a head, h11.SEND_BODY for a body."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._counted = self.addresses.counted(self.client[0]) if self.client is not None else None
        if self._counted is not None and not self.addresses.add(self._counted):
            log.warning("%s has %d connections, which is the limit", self._counted, MOST_OF_ADDRESS)
            transport.abort()
            return
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        if self._counted is not None:
            self.addresses.remove(self._counted)
            self._counted = None
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


def connection_class(proxies: Sequence[str]) -> type[Connection]:
    """The protocol of one listener's connections. proxies: see `Addresses`."""

    class OfListener(Connection):
        addresses = Addresses(proxies)

    return OfListener
