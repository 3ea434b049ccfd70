"""`python -m tests.simulators.proxy`: serve on loopback, print the port."""

from __future__ import annotations

import asyncio

from tests.simulators.process import serve_until_orphaned
from tests.simulators.proxy.server import MAX_HEAD, ProxyServer


async def serve() -> None:
    """Serve until standard input closes."""
    server = await asyncio.start_server(ProxyServer().handle, "127.0.0.1", 0, limit=MAX_HEAD)
    async with server:
        await serve_until_orphaned(server.sockets[0].getsockname()[1])


asyncio.run(serve())
