"""`python -m tests.simulators.slack`: serves on a free loopback port until its parent is gone."""

import asyncio
import functools

from tests.simulators.serving import serve
from tests.simulators.slack.server import build_app
from tests.simulators.slack.world import World


async def main() -> None:
    """Serve one simulated platform; tests register their workspaces and apps."""
    world = World()
    await serve(build_app(world), listening=functools.partial(setattr, world, "origin"))


if __name__ == "__main__":
    asyncio.run(main())
