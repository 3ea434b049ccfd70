"""Websockets of simulated apps, as the platform sees them: open, half-open, closed, reset; the list of all of them."""

import asyncio
import time
from typing import Any, Generic, Protocol, TypeVar

from aiohttp import WSMessage, WSMsgType, web

from tests.simulators.connections import reset_connection
from tests.simulators.delivery import Delivery
from tests.simulators.signals import Signal

Json = dict[str, Any]
MAX_FRAME = 8 * 1024 * 1024
AppT = TypeVar("AppT", bound="SocketApp")
SocketT = TypeVar("SocketT", bound="Websocket[Any]")


class SocketApp(Protocol):
    """The app behind a websocket."""

    changed: Signal

    @property
    def delivery(self) -> Delivery[Any, Any, Any]: ...
    def touch(self) -> None: ...


class Websocket(Generic[AppT]):
    """One websocket. silent: it stays open, but nothing more is read from it or written to it (half-open).

    pings: those of the client. bad_frames: frames that no client may send. Times are in monotonic seconds.
    """

    def __init__(self, id: str, app: AppT, ws: web.WebSocketResponse, transport: asyncio.BaseTransport | None) -> None:
        self.id = id
        self.app = app
        self.ws = ws
        self.silent = False
        self.gone = False
        self.opened_at = time.monotonic()
        self.closed_at: float | None = None
        self.close_code: int | None = None
        self.pings = 0
        self.bad_frames: list[str] = []
        self._transport = transport

    async def take(self, message: WSMessage) -> None:
        """Handle a message of the client, pings and pongs included."""
        raise NotImplementedError

    async def write(self, data: str | bytes) -> None:
        """Write a frame; a silent or broken socket swallows it (the ack will be missing)."""
        if self.silent or self.ws.closed:
            return
        try:
            await (self.ws.send_str(data) if isinstance(data, str) else self.ws.send_bytes(data))
        except ConnectionError:
            self.gone = True

    async def close(self, code: int) -> None:
        """Close with a proper handshake."""
        if not self.ws.closed:
            await self.ws.close(code=code)

    def abort(self) -> None:
        """Reset the TCP connection without a close frame."""
        reset_connection(self._transport)

    async def receive_until_closed(self) -> None:
        """Handle messages; returns once the client is gone."""
        while True:
            message = await self.ws.receive()
            if message.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR):
                self.close_code = self.ws.close_code
                if message.type is WSMsgType.CLOSE and not self.silent:
                    await self.ws.close()
                return
            if not self.silent:
                await self.take(message)

    def view(self) -> Json:
        """The state that tests read."""
        names = ("id", "silent", "opened_at", "closed_at", "close_code", "pings", "bad_frames")
        return {name: getattr(self, name) for name in names}


async def upgrade(request: web.Request) -> web.WebSocketResponse:
    """Accept a websocket whose pings and closing are answered manually."""
    ws = web.WebSocketResponse(autoping=False, autoclose=False, max_msg_size=MAX_FRAME, heartbeat=None)
    await ws.prepare(request)
    return ws


class Sockets(Generic[SocketT]):
    """All websockets, including closed ones."""

    def __init__(self) -> None:
        self._sockets: list[SocketT] = []

    def of(self, app: object, *, live: bool = True) -> list[SocketT]:
        """The sockets of an app, oldest first; live: only those that the platform considers open."""
        return [s for s in self._sockets if s.app is app and not (live and s.closed_at is not None)]

    def add(self, socket: SocketT) -> None:
        """Add an opened websocket."""
        self._sockets.append(socket)

    async def serve(self, socket: SocketT) -> None:
        """Handle the messages of a socket until its client is gone."""
        try:
            await socket.receive_until_closed()
        finally:
            socket.gone = True
            if not socket.silent:
                self.forget(socket)

    def forget(self, socket: SocketT) -> None:
        """Remove a socket that the platform has found to be gone."""
        socket.closed_at = socket.closed_at or time.monotonic()
        socket.app.delivery.detach(socket)
        socket.app.touch()
