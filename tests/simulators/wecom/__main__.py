"""`python -m tests.simulators.wecom`: serves on a free loopback port until its parent is gone."""

import asyncio

from aiohttp import web

from tests.simulators.process import serve_until_orphaned
from tests.simulators.wecom.server import build_app
from tests.simulators.wecom.world import World


async def main() -> None:
    """Serve one simulated platform; tests register their bots."""
    world = World()
    runner = web.AppRunner(build_app(world), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=2048)
        await site.start()
        port = int(runner.addresses[0][1])
        world.origin = f"http://127.0.0.1:{port}"
        await serve_until_orphaned(port)
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
