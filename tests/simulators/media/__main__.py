"""`python -m tests.simulators.media`: serves on a free loopback port until its parent is gone."""

import asyncio

from tests.simulators.media.server import MediaServer
from tests.simulators.serving import serve

if __name__ == "__main__":
    asyncio.run(serve(MediaServer().app()))
