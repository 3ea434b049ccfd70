"""`python -m tests.simulators.wecom`: serves on a free loopback port until its parent is gone."""

import asyncio
import functools

from tests.simulators.serving import serve
from tests.simulators.wecom.server import build_app
from tests.simulators.wecom.world import World


async def main() -> None:
    """Serve one simulated platform; tests register their bots."""
    world = World()
    await serve(build_app(world), listening=functools.partial(setattr, world, "origin"))


if __name__ == "__main__":
    asyncio.run(main())
