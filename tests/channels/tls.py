"""TLS in front of a simulator that speaks none: what the adapters' ways through a proxy lead to."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from channels.base import Route
from tests.simulators.process import SimulatorProcess
from tests.simulators.proxy.authority import PrivateAuthority
from tests.simulators.proxy.client import ProxySimulator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path


def _as_it_is(chunk: bytes) -> bytes:
    return chunk


@asynccontextmanager
async def tls_front(
    authority: PrivateAuthority, host: str, port: int, rewrite: Callable[[bytes], bytes] = _as_it_is
) -> AsyncIterator[int]:
    """Decrypts what is meant for `host` and hands it to `port`; yields its own port. rewrite: done to each chunk."""
    made = authority.issue(host)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.cert, made.key)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        tasks = [asyncio.create_task(copy(reader, inner_writer)), asyncio.create_task(copy(inner_reader, writer))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        inner_writer.close()
        writer.close()
        await asyncio.wait(tasks)

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):  # whoever is at the other end may break it off
            while chunk := await source.read(65536):
                target.write(rewrite(chunk))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@asynccontextmanager
async def proxied(
    folder: Path, host: str, port: int, rewrite: Callable[[bytes], bytes] = _as_it_is
) -> AsyncIterator[tuple[ProxySimulator, Route]]:
    """A proxy to which `host` is what listens at `port`, behind TLS; and the route through it that trusts that TLS."""
    authority = PrivateAuthority.create(folder)
    async with (
        SimulatorProcess("tests.simulators.proxy") as process,
        ProxySimulator(process.port) as proxy,
        tls_front(authority, host, port, rewrite) as front,
    ):
        await proxy.route(f"{host}:443", front)
        yield proxy, Route(proxy=proxy.url, ca_file=authority.cert)
