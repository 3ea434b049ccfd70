"""A terminal's link over a stream of JSON lines, for `antler console` and the control socket.

Whoever owns the socket does its own greeting first and hands the streams over; from then on each line is one input
(terminal to gateway) or one frame (gateway to terminal).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from channels.console.frames import FRAME, INPUT, Frame, Input

if TYPE_CHECKING:
    import asyncio

    from pydantic import TypeAdapter

T = TypeVar("T")

MAX_LINE = 4 * 1024 * 1024
"""Bytes of one JSON line; open the streams with this `limit`."""
MAX_UNSENT = 16 * 1024 * 1024
"""Bytes that may wait for a terminal that does not read, before it is let go."""


class SocketConsoleLink:
    """The gateway's end."""

    def __init__(self, session: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.session = session
        self._reader = reader
        self._writer = writer

    async def receive(self) -> Input | None:
        return await _read(self._reader, INPUT)

    def show(self, frame: Frame) -> bool:
        transport = self._writer.transport
        if transport.is_closing():
            return False
        if transport.get_write_buffer_size() > MAX_UNSENT:
            transport.abort()
            return False
        self._writer.write(FRAME.dump_json(frame) + b"\n")
        return True

    def close(self) -> None:
        self._writer.close()


class SocketTerminalLink:
    """The terminal's end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self) -> Frame | None:
        return await _read(self._reader, FRAME)

    async def send(self, item: Input) -> None:
        if self._writer.is_closing():
            return
        self._writer.write(INPUT.dump_json(item) + b"\n")
        try:
            await self._writer.drain()
        except ConnectionError:
            self.close()

    def close(self) -> None:
        self._writer.close()


async def _read(reader: asyncio.StreamReader, kind: TypeAdapter[T]) -> T | None:
    """The next line; None at the end, and at a line that is not of this protocol."""
    try:
        line = await reader.readline()
        return kind.validate_json(line) if line else None
    except (ConnectionError, ValueError):  # ValueError: an overlong line, or not a valid input or frame
        return None
