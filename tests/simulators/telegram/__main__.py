"""`python -m tests.simulators.telegram [CERT KEY]`: serves on a free loopback port until its parent is gone.

With a certificate and its key (PEM files) it speaks TLS, the control side included.
"""

import asyncio
import ssl
import sys

from aiohttp import web

from tests.simulators.process import serve_until_orphaned
from tests.simulators.telegram.server import build_app
from tests.simulators.telegram.state import World

DEFAULT_TOKEN = "7000000001:SIMULATOR-default-bot-token-0000000"


async def main(tls: ssl.SSLContext | None) -> None:
    """Serve one simulated Telegram with the default bot registered."""
    world = World()
    world.add_bot(DEFAULT_TOKEN)
    runner = web.AppRunner(build_app(world), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=2048, ssl_context=tls)
        await site.start()
        port = int(runner.addresses[0][1])
        await serve_until_orphaned(port, token=DEFAULT_TOKEN)
    finally:
        await runner.cleanup()


def _tls(certificate: list[str]) -> ssl.SSLContext | None:
    if not certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    return context


if __name__ == "__main__":
    asyncio.run(main(_tls(sys.argv[1:])))
