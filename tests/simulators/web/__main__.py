"""`python -m tests.simulators.web`: the website and a SearXNG that also finds one of its pages, on one loopback port;
prints the port."""

from __future__ import annotations

import asyncio

from tests.simulators.process import serve_until_orphaned
from tests.simulators.web.engines import SearxngEngine
from tests.simulators.web.site import Site


async def serve() -> None:
    """Serve until standard input closes."""
    engine = SearxngEngine()
    async with Site(own=engine.answers()).serve() as site:
        engine.hits.append(("The lighthouse, a guide", site.url("/article"), "What its keeper wrote of it."))
        await serve_until_orphaned(site.port)


asyncio.run(serve())
