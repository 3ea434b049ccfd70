"""The websocket endpoint of Socket Mode: tickets, hello, ping and pong, acks, and how a socket ends."""

import asyncio
import json
import socket
import struct
import time
from typing import Any, Literal

from aiohttp import WSMessage, WSMsgType, web

from tests.simulators.slack.delivery import MAX_SOCKETS
from tests.simulators.slack.errors import SlackError
from tests.simulators.slack.faults import SOCKET_UPGRADE
from tests.simulators.slack.ids import numbered
from tests.simulators.slack.state import App, Json
from tests.simulators.slack.world import TICKET_SECONDS, World

DisconnectReason = Literal["warning", "refresh_requested", "too_many_websockets", "link_disabled"]

# What a used or old ticket is answered with; SDK issues show 408 and 409 from the real server.
STALE_TICKET_STATUS = 408
# The method reference names no error for an app whose Socket Mode is off.
SOCKET_MODE_OFF = "forbidden_team"
CONNECTION_SECONDS = 18060
DEBUG_CONNECTION_SECONDS = 360
MAX_FRAME = 8 * 1024 * 1024


def open_connection(world: World, token: str, *, debug: bool = False) -> Json:
    """apps.connections.open: a url that is good for one socket within half a minute."""
    app = world.app_of_token(token)
    if "connections:write" not in app.app_token_scopes:
        raise SlackError("missing_scope", needed="connections:write", provided=",".join(sorted(app.app_token_scopes)))
    if not app.socket_mode:
        raise SlackError(SOCKET_MODE_OFF)
    ticket = numbered("ticket-")
    world.tickets[ticket] = (app, world.clock.now())
    url = world.origin.replace("http", "ws", 1) + f"/link/?ticket={ticket}&app_id={app.app_id}"
    return {"url": url + "&debug_reconnects=true" if debug else url}


class Socket:
    """One websocket. silent: it stays open and nothing is read from it or written to it any more (half-open).

    pings: of the client, answered unless silent; pongs: answers to ours. Monotonic seconds.
    """

    def __init__(self, app: App, ws: web.WebSocketResponse, transport: asyncio.BaseTransport | None) -> None:
        self.id = numbered("S")
        self.app = app
        self.ws = ws
        self.silent = False
        self.gone = False
        self.opened_at = time.monotonic()
        self.closed_at: float | None = None
        self.close_code: int | None = None
        self.pings = 0
        self.pongs = 0
        self.bad_frames: list[str] = []
        self._transport = transport

    async def send(self, text: str) -> None:
        """Write a frame; a silent socket swallows it, a broken one too (the ack will be missing)."""
        if self.silent or self.ws.closed:
            return
        try:
            await self.ws.send_str(text)
        except ConnectionError:
            self.gone = True

    async def disconnect(self, reason: DisconnectReason) -> None:
        """Announce the end in a disconnect frame."""
        await self.send(json.dumps({"type": "disconnect", "reason": reason, "debug_info": {"host": "applink"}}))

    async def close(self, code: int) -> None:
        """A proper close handshake."""
        if not self.ws.closed:
            await self.ws.close(code=code)

    def abort(self) -> None:
        """Reset the TCP connection without a close frame."""
        if self._transport is None:
            return
        connection = self._transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if isinstance(self._transport, asyncio.WriteTransport):
            self._transport.abort()

    async def receive_until_closed(self) -> None:
        """Answer pings, take acks; returns once the client is gone."""
        while True:
            message = await self.ws.receive()
            if message.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR):
                self.close_code = self.ws.close_code
                if message.type is WSMsgType.CLOSE and not self.silent:
                    await self.ws.close()
                return
            if not self.silent:
                await self._handle(message)

    async def _handle(self, message: WSMessage) -> None:
        if message.type is WSMsgType.PING:
            self.pings += 1
            await self.ws.pong(message.data)
        elif message.type is WSMsgType.PONG:
            self.pongs += 1
        elif message.type is WSMsgType.TEXT:
            self._take_text(message.data)
        else:
            self.bad_frames.append(message.type.name)

    def _take_text(self, text: str) -> None:
        try:
            frame = json.loads(text)
        except ValueError:
            frame = None
        if not isinstance(frame, dict) or "envelope_id" not in frame:
            self.bad_frames.append(text)
            return
        self.app.delivery.acknowledge(str(frame["envelope_id"]), frame.get("payload"))

    def view(self) -> Json:
        """What tests read."""
        names = ("id", "silent", "opened_at", "closed_at", "close_code", "pings", "pongs", "bad_frames")
        return {name: getattr(self, name) for name in names} | {"app": self.app.app_id}


class SocketServer:
    """Handler of /link/ and the list of all sockets, by app."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sockets: list[Socket] = []

    def of(self, app: App, *, live: bool = True) -> list[Socket]:
        """The sockets of an app, oldest first; live: only those that the platform takes for open."""
        return [s for s in self._sockets if s.app is app and not (live and s.closed_at is not None)]

    async def link(self, request: web.Request) -> web.StreamResponse:
        """The upgrade and the whole life of one socket."""
        record = self._world.journal.arrive(
            request.query.get("app_id"), None, SOCKET_UPGRADE, request.method, "/link/", {}
        )
        app, refused = self._admit(request)
        if app is None:
            self._world.journal.finish(record, refused, "refused")
            return web.Response(status=refused, text="")
        ws = web.WebSocketResponse(autoping=False, autoclose=False, max_msg_size=MAX_FRAME, heartbeat=None)
        await ws.prepare(request)
        self._world.journal.finish(record, 101, "applied")
        link = Socket(app, ws, request.transport)
        self._sockets.append(link)
        await self._serve(link, debug="debug_reconnects" in request.query)
        return ws

    async def _serve(self, link: Socket, *, debug: bool) -> None:
        too_many = link.app.delivery.links >= MAX_SOCKETS
        await link.send(json.dumps(_hello(link.app, debug=debug)))
        if too_many:
            await link.disconnect("too_many_websockets")
            await link.close(1000)
        else:
            link.app.delivery.attach(link)
        try:
            await link.receive_until_closed()
        finally:
            link.gone = True
            if not link.silent:
                self.forget(link)

    def forget(self, link: Socket) -> None:
        """The platform noticed that a socket is gone."""
        link.closed_at = link.closed_at or time.monotonic()
        link.app.delivery.detach(link)
        link.app.touch()

    def _admit(self, request: web.Request) -> tuple[App | None, int]:
        """The app of a good ticket, or None and the status of the refusal. A ticket is used up by the socket."""
        ticket = request.query.get("ticket", "")
        app, made = self._world.tickets.get(ticket, (None, 0.0))
        known = app or self._world.apps.get(request.query.get("app_id", ""))
        fault = self._world.faults.take(known.app_id, SOCKET_UPGRADE, None) if known else None
        if fault is not None:
            self._world.tickets.pop(ticket, None)
            return None, fault.status
        if app is None or self._world.clock.now() - made > TICKET_SECONDS:
            return None, STALE_TICKET_STATUS
        del self._world.tickets[ticket]
        return app, 0


def _hello(app: App, *, debug: bool) -> Json:
    seconds = DEBUG_CONNECTION_SECONDS if debug else CONNECTION_SECONDS
    info: dict[str, Any] = {"host": "applink", "build_number": 1, "approximate_connection_time": seconds}
    return {
        "type": "hello",
        "num_connections": app.delivery.links + 1,
        "debug_info": info,
        "connection_info": {"app_id": app.app_id},
    }
