"""`python -m tests.simulators.feishu`: serves on a free loopback port until its parent is gone."""

import asyncio
import functools

from tests.simulators.feishu.server import build_app
from tests.simulators.feishu.world import World
from tests.simulators.serving import serve


async def main() -> None:
    """Serve one simulated platform; tests register their apps."""
    world = World()
    await serve(build_app(world), listening=functools.partial(setattr, world, "origin"))


if __name__ == "__main__":
    asyncio.run(main())
