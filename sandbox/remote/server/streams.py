"""An answer of lines of JSON, which shows a sign of life while there is nothing to say. Used by app.py."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import TYPE_CHECKING

from aiohttp import web

from sandbox.remote import wire

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_WAITING = 1 << 18
"""Characters of output; of a flood, what a slow client has not read yet gives way to what is newer."""


class ClientGone(ConnectionError):
    """It reads no more, or its machine does not answer."""


class Lines:
    """alive: seconds between signs of life. stalled: seconds after which a client that reads nothing is gone."""

    def __init__(self, request: web.Request, *, alive: float, stalled: float) -> None:
        self._request = request
        self._alive = alive
        self._stalled = stalled
        self._response = web.StreamResponse(headers={"Content-Type": wire.LINES, "X-Accel-Buffering": "no"})

    async def begin(self) -> None:
        """A machine that vanished without a word is noticed too (TCP_USER_TIMEOUT, tcp(7))."""
        transport = self._request.transport
        if transport is not None:
            connection: socket.socket = transport.get_extra_info("socket")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(self._stalled * 1000))
        await self._response.prepare(self._request)

    async def send(self, event: Mapping[str, object]) -> None:
        """Raises ConnectionError."""
        try:
            async with asyncio.timeout(self._stalled):
                await self._response.write(wire.dumped(event) + b"\n")
        except TimeoutError:
            raise ClientGone from None

    async def end(self, event: Mapping[str, object]) -> web.StreamResponse:
        await self.send(event)
        await self._response.write_eof()
        return self._response

    async def follow(self, output: Output, work: asyncio.Task[object]) -> None:
        """Send output as it comes, until the work is done."""
        while not work.done() or output.waiting:
            if output.waiting:
                await self.send({"output": output.take()})
            elif not await output.more(work, self._alive):
                await self.send({})


class Output:
    """What a command prints, between the sandbox that tells it and the client that reads it."""

    def __init__(self) -> None:
        self._pieces: deque[str] = deque()
        self._size = 0
        self._come = asyncio.Event()

    def __call__(self, piece: str) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        while self._size > _MOST_WAITING and len(self._pieces) > 1:
            self._size -= len(self._pieces.popleft())
        self._come.set()

    @property
    def waiting(self) -> bool:
        return bool(self._pieces)

    def take(self) -> str:
        text = "".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        self._come.clear()
        return text

    async def more(self, work: asyncio.Task[object], seconds: float) -> bool:
        """Wait for output or for the end of the work; whether one of them came in time."""
        coming = asyncio.ensure_future(self._come.wait())
        try:
            done, _ = await asyncio.wait({coming, work}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            coming.cancel()
        return bool(done)
