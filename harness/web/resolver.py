"""Host names to addresses, on a few threads of its own: a slow name server holds up nobody's files. For guard.py."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

THREADS = 4


class SystemResolver:
    """Asks what the system asks (hosts file, DNS). Raises OSError for a name that has no address."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="web names")

    async def __call__(self, host: str, port: int) -> list[str]:
        """The addresses of a host, in the order in which they are to be tried."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, _asked, host, port)

    def close(self) -> None:
        """What is still being asked is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _asked(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
