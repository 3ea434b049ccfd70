"""`python -m tests.simulators.model [--port N] [--tls-cert FILE --tls-key FILE]`: serve on loopback, print the port."""

from __future__ import annotations

import argparse
import asyncio
import logging
import ssl

from aiohttp import web

from tests.simulators.model.play import SCRIPTED_RESET
from tests.simulators.model.server import ModelServer
from tests.simulators.process import serve_until_orphaned


async def serve(port: int, tls: ssl.SSLContext | None) -> None:
    """Serve until standard input closes."""
    # Without handler_cancellation a hanging or paused answer would never learn that its client has gone.
    runner = web.AppRunner(ModelServer().app(), handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls, backlog=2048)
    await site.start()
    await serve_until_orphaned(runner.addresses[0][1])
    await runner.cleanup()


def _is_news(record: logging.LogRecord) -> bool:
    """False for the connections that a script resets: the server mistakes them for its own failures."""
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, ConnectionResetError) and SCRIPTED_RESET in str(error))


def main() -> None:
    logging.getLogger("aiohttp.server").addFilter(_is_news)
    parser = argparse.ArgumentParser(prog="tests.simulators.model")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tls-cert")
    parser.add_argument("--tls-key")
    arguments = parser.parse_args()
    tls = None
    if arguments.tls_cert:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(arguments.tls_cert, arguments.tls_key)
    asyncio.run(serve(arguments.port, tls))


main()
