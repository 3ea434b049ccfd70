"""The network between a program and a server's Unix socket, which a test can cut or silence."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

PIECE = 64 * 1024


class Relay:
    """Forwards a port of this machine to the socket, within the block."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = True
        self._flows = asyncio.Event()
        self._flows.set()

    @property
    def port(self) -> int:
        assert self._server is not None
        number: int = self._server.sockets[0].getsockname()[1]
        return number

    def cut(self) -> None:
        """Break every connection, as by a firewall that answers with resets, and accept no new one."""
        self._open = False
        for writer in self._writers:
            writer.transport.abort()

    def fall_silent(self) -> None:
        """Keep the connections but transfer nothing, as with an unplugged cable."""
        self._flows.clear()

    def heal(self) -> None:
        self._open = True
        self._flows.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        there: asyncio.StreamWriter | None = None
        try:
            if not self._open:
                return
            answers, there = await asyncio.open_unix_connection(self._socket)
            self._writers |= {writer, there}
            await asyncio.gather(self._pass(reader, there), self._pass(answers, writer))
        except (OSError, asyncio.CancelledError):
            pass  # either side disconnected, or the test is over
        finally:
            self._tasks.discard(task)
            for each in filter(None, (writer, there)):
                self._writers.discard(each)
                each.transport.abort()

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while piece := await source.read(PIECE):
            await self._flows.wait()
            target.write(piece)
            await target.drain()
        with contextlib.suppress(OSError):
            target.write_eof()
