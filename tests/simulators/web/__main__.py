"""`python -m tests.simulators.web`: the website and a SearXNG on one loopback port; prints the port."""

from __future__ import annotations

import asyncio

from tests.simulators.process import serve_until_orphaned
from tests.simulators.web.engines import SearxngEngine
from tests.simulators.web.site import Site


async def serve() -> None:
    """Serve until standard input closes."""
    async with Site(own=SearxngEngine().answers()).serve() as site:
        await serve_until_orphaned(site.port)


asyncio.run(serve())
