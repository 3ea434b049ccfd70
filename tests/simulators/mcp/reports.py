"""The test's side of `--report`: lines about events in the servers, as they arrive."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

WAIT_SECONDS = 30.0


class Reports:
    """The received lines. lines: all of them. forget: a line counts once for `heard`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.port = 0
        self._seen = 0
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def heard(self, line: str) -> None:
        """Wait until this line arrives, or has arrived since the last call. Raises TimeoutError."""
        async with asyncio.timeout(WAIT_SECONDS):
            while line not in self.lines[self._seen :]:
                self._news.clear()
                await self._news.wait()
        self._seen = self.lines.index(line, self._seen) + 1

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while text := await reader.readline():
                self.lines.append(text.decode().strip())
                self._news.set()
        writer.close()


@contextlib.asynccontextmanager
async def listening() -> AsyncIterator[Reports]:
    reports = Reports()
    server = await asyncio.start_server(reports._connected, "127.0.0.1", 0)
    reports.port = server.sockets[0].getsockname()[1]
    try:
        yield reports
    finally:
        server.close()
