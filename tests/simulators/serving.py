"""The body of the platforms' `__main__`: serve an application on a free loopback port until the parent is gone."""

import ssl
from collections.abc import Callable
from typing import Any

from aiohttp import web

from tests.simulators.process import serve_until_orphaned


def _nobody(origin: str) -> None:
    """Ignore the origin."""


async def serve(
    app: web.Application,
    *,
    listening: Callable[[str], None] = _nobody,
    tls: ssl.SSLContext | None = None,
    **details: Any,
) -> None:
    """Serve; `listening` first gets the origin (scheme, host and port). details: announced along with the port."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=2048, ssl_context=tls)
        await site.start()
        port = int(runner.addresses[0][1])
        listening(f"{'http' if tls is None else 'https'}://127.0.0.1:{port}")
        await serve_until_orphaned(port, **details)
    finally:
        await runner.cleanup()
