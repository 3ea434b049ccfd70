"""Which hosts and addresses connections are allowed to, checked between resolving and connecting."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)")
_LONGEST_NAME = 253

_CLOSED = tuple(
    ipaddress.ip_network(each)
    for each in (
        # IPv4: this network, private, shared (carriers, and a cloud's metadata), loopback, link-local, protocol
        # assignments, documentation, benchmarks, multicast, reserved, and the address of one cloud's services.
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32"),
    )
)
_OPEN_IPV6 = ipaddress.ip_network("2000::/3")
"""All publicly routed addresses; the rest is local, mapped, translated, multicast or unassigned."""
_CLOSED_IPV6 = tuple(
    ipaddress.ip_network(each)
    for each in (
        # Exceptions: embedded IPv4 (Teredo, 6to4), protocol assignments, documentation.
        *("2001::/23", "2002::/16", "2001:db8::/32", "3fff::/20"),
    )
)


def is_public(address: str) -> bool:
    """Whether an address, as returned by a resolver, belongs to the public internet and to no internal network."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv4Address):
        return not any(parsed in network for network in _CLOSED)
    return parsed in _OPEN_IPV6 and not any(parsed in network for network in _CLOSED_IPV6)


def is_host_name(host: str) -> bool:
    """Whether it is a plain name of letters, digits and hyphens with two or more labels; no address in any notation."""
    labels = host.split(".")
    return (
        len(host) <= _LONGEST_NAME
        and len(labels) >= 2
        and all(map(_LABEL.fullmatch, labels))
        and not labels[-1].isdigit()
        and not labels[-1].startswith("0x")
    )


def is_listed(host: str, allow: Iterable[str]) -> bool:
    """Whether a lower-case name is on the list; `*.example.org` means every name below example.org."""
    return any(
        host.endswith(each[1:]) and len(host) > len(each) - 1 if each.startswith("*.") else host == each
        for each in allow
    )


THREADS = 8
"""Maximum number of concurrent lookups; more wait."""


def addresses_of(host: str, port: int) -> list[str]:
    """Resolve a host with the system's resolver. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Names:
    """Resolves names in threads. look_up: blocking. threads: maximum of concurrent lookups. `close` it after use."""

    def __init__(self, look_up: Callable[[str, int], list[str]] = addresses_of, threads: int = THREADS) -> None:
        self._look_up = look_up
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="names")
        self._closed = False

    async def resolve(self, host: str, port: int) -> list[str]:
        """The addresses of a host, each once. Raises OSError."""
        if self._closed:
            raise OSError(errno.ESHUTDOWN, "the resolver is closed")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._look_up, host, port)

    def close(self) -> None:
        """Stop lookups, without waiting for hanging ones. Idempotent."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
