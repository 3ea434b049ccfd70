"""What a server may cost while its answer is read: others get their turn, and neither its head nor its parts go on
without end.

The HTTP parser makes everything of what it was given before it reads again: some 50 microseconds for a chunk of one
byte or an answer 1xx, and nobody else works meanwhile.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpcore

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterable, AsyncIterator, Iterable

MOST_HEAD = 64 * 1024
"""Bytes before the answer's body, with all answers 1xx."""
HEAD_PIECE = 2 * 1024
"""Bytes that the parser gets at a time until the body begins."""
FREE_PARTS, LEAST_PART = 4000, 64
"""A body comes in so many parts, and in more only where they have so many bytes each on an average."""
FREE_WIRE, MOST_WIRE = 256 * 1024, 4
"""Bytes for a body on the wire: so many, and so many times its own."""
PARTS_IN_A_ROW = 32
_WIRE = "antler_wire"


class PacedBackend(httpcore.AsyncNetworkBackend):
    """The connections of another backend, each as a PacedStream."""

    def __init__(self, backend: httpcore.AsyncNetworkBackend) -> None:
        self._backend = backend

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return PacedStream(await self._backend.connect_tcp(host, port, timeout, local_address, socket_options))

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        return PacedStream(await self._backend.connect_unix_socket(path, timeout, socket_options))

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


class PacedStream(httpcore.AsyncNetworkStream):
    """A connection that gives little at a time. taken: bytes that were read of an answer's head, then of its body."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self.taken = 0
        self.in_head = True

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        await asyncio.sleep(0)
        data = await self._stream.read(min(max_bytes, HEAD_PIECE) if self.in_head else max_bytes, timeout)
        self.taken += len(data)
        if self.in_head and self.taken > MOST_HEAD:
            raise httpcore.RemoteProtocolError("the answer's head has no end")
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.taken, self.in_head = 0, True
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return PacedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self if info == _WIRE else self._stream.get_extra_info(info)


async def paced(answer: httpcore.Response) -> AsyncIterator[bytes]:
    """The parts of a body. Raises RemoteProtocolError for one that is made to keep us busy."""
    wire: PacedStream = answer.extensions["network_stream"].get_extra_info(_WIRE)
    wire.taken, wire.in_head = 0, False
    parts: AsyncIterable[bytes] = answer.aiter_stream()
    number = size = 0
    async for part in parts:
        number, size = number + 1, size + len(part)
        if number > FREE_PARTS + size // LEAST_PART or wire.taken > FREE_WIRE + MOST_WIRE * size:
            raise httpcore.RemoteProtocolError("the answer's body is more packaging than content")
        if number % PARTS_IN_A_ROW == 0:
            await asyncio.sleep(0)
        yield part
