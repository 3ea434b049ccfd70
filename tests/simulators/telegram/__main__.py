"""`python -m tests.simulators.telegram [CERT KEY]`: serves on a free loopback port until its parent is gone.

With a certificate and its key (PEM files) it speaks TLS, the control side included.
"""

import asyncio
import ssl
import sys

from tests.simulators.serving import serve
from tests.simulators.telegram.server import build_app
from tests.simulators.telegram.state import World

DEFAULT_TOKEN = "7000000001:SIMULATOR-default-bot-token-0000000"


async def main(tls: ssl.SSLContext | None) -> None:
    """Serve one simulated Telegram with the default bot registered."""
    world = World()
    world.add_bot(DEFAULT_TOKEN)
    await serve(build_app(world), tls=tls, token=DEFAULT_TOKEN)


def _tls(certificate: list[str]) -> ssl.SSLContext | None:
    if not certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    return context


if __name__ == "__main__":
    asyncio.run(main(_tls(sys.argv[1:])))
