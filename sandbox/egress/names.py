"""Looks up the names that commands ask for, in threads of its own: one that hangs holds back no work of the gateway's.

Used by the proxy. A lookup cannot be broken off: given up, it keeps its thread until the resolver gives up too.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

THREADS = 8
"""Lookups at a time; more wait."""


def addresses_of(host: str, port: int) -> list[str]:
    """By the system's resolver. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Names:
    """look_up: blocks until it knows the addresses. `close` it after use."""

    def __init__(self, look_up: Callable[[str, int], list[str]] = addresses_of) -> None:
        self._look_up = look_up
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="egress-names")
        self._closed = False

    async def resolve(self, host: str, port: int) -> list[str]:
        """The addresses of a host, each once. Raises OSError."""
        if self._closed:
            raise OSError(errno.ESHUTDOWN, "no names are looked up any more")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._look_up, host, port)

    def close(self) -> None:
        """Nothing is looked up any more; what hangs is not waited for. Idempotent."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
