"""`python -m tests.simulators.mcp stdio|http`: a server on its stdin and stdout, or on loopback until it is orphaned.

--report PORT: where event lines are sent. http: streamable HTTP at /mcp, SSE at /sse; --tokens: both require a token
from /token; /control/NAME changes the server.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any

from mcp.server.stdio import stdio_server

from tests.simulators.mcp.play import Play
from tests.simulators.process import serve_until_orphaned

if TYPE_CHECKING:
    from collections.abc import Callable


def reporter(port: int) -> Callable[[str], None]:
    if not port:
        return lambda line: None
    connection = socket.create_connection(("127.0.0.1", port))
    return lambda line: connection.sendall(line.encode() + b"\n")


async def over_stdio(play: Play) -> None:
    play.report("started")
    async with stdio_server() as (read, write):
        await play.server.run(read, write, play.options)


async def over_http(play: Play, port: int, *, tokens: bool, tls: dict[str, Any]) -> None:
    import uvicorn

    from tests.simulators.mcp.web import application

    listener = socket.create_server(("127.0.0.1", port))
    app = application(play, tokens=tokens)
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=0, lifespan="on", **tls)
    )
    serving = asyncio.create_task(server.serve([listener]))
    play.report("started")
    await serve_until_orphaned(listener.getsockname()[1])
    server.should_exit = True
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.simulators.mcp")
    parser.add_argument("transport", choices=["stdio", "http"])
    parser.add_argument("--name", default="play")
    parser.add_argument("--report", type=int, default=0)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--many", type=int, default=0)
    parser.add_argument("--tls-cert")
    parser.add_argument("--tls-key")
    parser.add_argument("--tokens", action="store_true")
    arguments = parser.parse_args()
    play = Play(arguments.name, reporter(arguments.report), arguments.many)
    if arguments.transport == "stdio":
        asyncio.run(over_stdio(play))
    else:
        tls = {"ssl_certfile": arguments.tls_cert, "ssl_keyfile": arguments.tls_key} if arguments.tls_cert else {}
        asyncio.run(over_http(play, arguments.port, tokens=arguments.tokens, tls=tls))


main()
