"""The connection between one terminal and the gateway: within one process, or over a stream of JSON lines.

The stream serves `antler console` and the control socket, which do their own handshake first and then hand it over;
from then on each line is one input (terminal to gateway) or one frame (gateway to terminal).
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Protocol, TypeVar

from channels.console.frames import FRAME, INPUT, Entered, Frame, Input, Menu, Removed, Shown, Typing

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pydantic import TypeAdapter


MAX_INPUTS = 100
"""Inputs queued for the gateway; a faster terminal has to wait."""
MAX_FRAMES = 1000
"""Different messages queued for the terminal; a terminal that does not read is disconnected."""

T = TypeVar("T")
MAX_LINE = 4 * 1024 * 1024
"""Bytes of one JSON line; open the streams with this `limit`."""
MAX_UNSENT = 16 * 1024 * 1024
"""Bytes that may be queued for a terminal that does not read, before it is disconnected."""


class ConsoleLink(Protocol):
    """The gateway's end."""

    @property
    def session(self) -> str:
        """The terminal's random id, the same for all its inputs."""

    async def receive(self) -> Input | None:
        """The next input; None once the terminal is gone. Cancelling it loses nothing."""

    def show(self, frame: Frame) -> bool:
        """Queue a frame without waiting; False if the terminal is gone or has stopped reading."""

    def close(self) -> None:
        """Close the link; queued frames still arrive. Idempotent."""


class TerminalLink(Protocol):
    """The terminal's end."""

    async def receive(self) -> Frame | None:
        """The next frame; None once the gateway has closed the link and all frames have been read."""

    async def send(self, item: Input) -> None:
        """Queue an input, waiting while the gateway is behind; it is lost if the link is closed."""

    def close(self) -> None:
        """Leave. Idempotent."""


def link_pair(session: str | None = None) -> tuple[ConsoleLink, TerminalLink]:
    """Both ends of a link within this process and event loop."""
    inputs, frames = _Inputs(), _Frames()
    return _GatewayEnd(session or uuid.uuid4().hex, inputs, frames), _TerminalEnd(inputs, frames)


class _Inputs:
    """A bounded queue that can be closed."""

    def __init__(self) -> None:
        self._items: deque[Input] = deque()
        self._ready = asyncio.Event()
        self._space = asyncio.Event()
        self._closed = False

    async def put(self, item: Input) -> None:
        while len(self._items) >= MAX_INPUTS and not self._closed:
            self._space.clear()
            await self._space.wait()
        if not self._closed:
            self._items.append(item)
            self._ready.set()

    async def get(self) -> Input | None:
        while not self._items:
            if self._closed:
                return None
            self._ready.clear()
            await self._ready.wait()
        self._space.set()
        return self._items.popleft()

    def close(self) -> None:
        self._closed = True
        self._ready.set()
        self._space.set()


class _Frames:
    """Queued frames, the newest state of each message in the position of its oldest one."""

    def __init__(self) -> None:
        self._items: OrderedDict[Hashable, Frame] = OrderedDict()
        self._ready = asyncio.Event()
        self._closed = False

    def put(self, frame: Frame) -> bool:
        key = self._key(frame)
        if self._closed or (len(self._items) >= MAX_FRAMES and key not in self._items):
            return False
        self._items[key] = frame
        self._ready.set()
        return True

    def _key(self, frame: Frame) -> Hashable:
        match frame:
            case Shown(message_id=message_id) | Removed(message_id=message_id):
                return message_id
            case Typing():
                return Typing
            case Entered(number=number):
                return (Entered, number)
            case Menu(locale=locale):
                return (Menu, locale)

    async def get(self) -> Frame | None:
        while not self._items:
            if self._closed:
                return None
            self._ready.clear()
            await self._ready.wait()
        return self._items.popitem(last=False)[1]

    def close(self) -> None:
        self._closed = True
        self._ready.set()


class _GatewayEnd:
    def __init__(self, session: str, inputs: _Inputs, frames: _Frames) -> None:
        self.session = session
        self._inputs = inputs
        self._frames = frames

    async def receive(self) -> Input | None:
        return await self._inputs.get()

    def show(self, frame: Frame) -> bool:
        return self._frames.put(frame)

    def close(self) -> None:
        self._inputs.close()
        self._frames.close()


class _TerminalEnd:
    def __init__(self, inputs: _Inputs, frames: _Frames) -> None:
        self._inputs = inputs
        self._frames = frames

    async def receive(self) -> Frame | None:
        return await self._frames.get()

    async def send(self, item: Input) -> None:
        await self._inputs.put(item)

    def close(self) -> None:
        self._inputs.close()
        self._frames.close()


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
    """The next line; None at the end, and at a line that does not follow the protocol."""
    try:
        line = await reader.readline()
        return kind.validate_json(line) if line else None
    except (ConnectionError, ValueError):  # ValueError: an overlong line, or not a valid input or frame
        return None
