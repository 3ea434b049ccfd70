"""The long connection: its endpoint, the upgrade, control frames, acks, and how a connection ends."""

import asyncio
import json
import socket
import struct
import time
from urllib.parse import urlencode

from aiohttp import WSMessage, WSMsgType, web

from tests.simulators.feishu import ids
from tests.simulators.feishu.basics import authenticated
from tests.simulators.feishu.calls import Call
from tests.simulators.feishu.errors import FeishuError
from tests.simulators.feishu.faults import UPGRADE, Fault, refused_connection
from tests.simulators.feishu.frames import CONTROL, DATA, Frame, FrameError, decode, encode
from tests.simulators.feishu.limits import CONNECTIONS
from tests.simulators.feishu.state import App, Json
from tests.simulators.feishu.world import World

SERVICE_ID = 33554678
MAX_FRAME = 8 * 1024 * 1024
FORBIDDEN = refused_connection(403, None, "forbidden")
TOO_MANY = refused_connection(514, 1000040350, "exceed_conn_limit")


def open_endpoint(world: World, call: Call) -> Json:
    """POST callback/ws/endpoint: a URL for one connection, and how often to ping and to try again."""
    if not call.text("AppSecret"):
        raise FeishuError(1000040344, "app_secret is empty", status=200)
    app = authenticated(world, call.text("AppID"), call.text("AppSecret"))
    query = {
        "device_id": ids.numbered("7"),
        "service_id": SERVICE_ID,
        "access_key": ids.numbered("key-"),
        "ticket": ids.numbered("ticket-"),
        "app": app.app_id,
    }
    url = world.origin.replace("http", "ws", 1) + "/ws/v2?" + urlencode(query)
    return {"URL": url, "ClientConfig": app.client_config}


class Connection:
    """One websocket. silent: it stays open and nothing is read or written any more (half-open).

    pings: control frames of the client; ws_pings: the protocol's own. Monotonic seconds.
    """

    def __init__(self, app: App, device_id: str, ws: web.WebSocketResponse, request: web.Request, world: World) -> None:
        self.id = device_id
        self.app = app
        self.ws = ws
        self.service_id = SERVICE_ID
        self.silent = False
        self.gone = False
        self.opened_at = time.monotonic()
        self.closed_at: float | None = None
        self.close_code: int | None = None
        self.pings = 0
        self.ws_pings = 0
        self.acks = 0
        self.bad_frames: list[str] = []
        self._transport = request.transport
        self._world = world

    async def send(self, frame: Frame) -> None:
        """Write a frame; a silent connection swallows it, a broken one too (the ack will be missing)."""
        if self.silent or self.ws.closed:
            return
        try:
            await self.ws.send_bytes(encode(frame))
        except ConnectionError:
            self.gone = True

    async def send_raw(self, data: bytes) -> None:
        """Write any bytes."""
        if not self.silent and not self.ws.closed:
            await self.ws.send_bytes(data)

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
            self.ws_pings += 1
            if self.app.ws_pongs:
                await self.ws.pong(message.data)
        elif message.type is WSMsgType.BINARY:
            await self._take(message.data)
        elif message.type is not WSMsgType.PONG:
            self._refuse(message.type.name)

    async def _take(self, data: bytes) -> None:
        try:
            frame = decode(data)
        except FrameError as error:
            self._refuse(str(error))
            return
        if frame.service != self.service_id:
            self._refuse(f"service {frame.service}")
        if frame.method == CONTROL and frame.header("type") == "ping":
            self.pings += 1
            self.app.touch()
            if self.app.pongs:
                await self.pong()
        elif frame.method == DATA:
            self.acks += 1
            self.app.delivery.acknowledge(self, frame)
        else:
            self._refuse(f"method {frame.method} {frame.headers}")

    def _refuse(self, what: str) -> None:
        """A frame that no client may send: the test fails at its end."""
        self.bad_frames.append(what)
        self._world.problem(self.app.app_id, f"a bad frame: {what}")

    async def pong(self) -> None:
        """A control pong, by the app's settings with a ClientConfig, which the SDK obeys at once."""
        config = json.dumps(self.app.client_config).encode() if self.app.config_in_pong else b""
        await self.send(Frame(CONTROL, self.service_id, (("type", "pong"),), config))

    def view(self) -> Json:
        """What tests read."""
        names = ("id", "silent", "opened_at", "closed_at", "close_code", "pings", "ws_pings", "acks", "bad_frames")
        return {name: getattr(self, name) for name in names}


class SocketServer:
    """Handler of /ws/v2 and the list of all connections, by app."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._connections: list[Connection] = []

    def of(self, app: App, *, live: bool = True) -> list[Connection]:
        """The connections of an app, oldest first; live: only those that the platform takes for open."""
        return [c for c in self._connections if c.app is app and not (live and c.closed_at is not None)]

    async def connect(self, request: web.Request) -> web.StreamResponse:
        """The upgrade and the whole life of one connection."""
        query = request.query
        app = self._world.apps.get(query.get("app", ""))
        record = self._world.journal.arrive(app.app_id if app else None, UPGRADE, "GET", "/ws/v2")
        refusal = await self._refusal(app, query.get("device_id", ""))
        if refusal is not None or app is None:
            refusal = refusal or FORBIDDEN
            self._world.journal.finish(record, refusal.status, refusal.name)
            return web.Response(status=refusal.status, headers=refusal.headers)
        ws = web.WebSocketResponse(autoping=False, autoclose=False, max_msg_size=MAX_FRAME, heartbeat=None)
        await ws.prepare(request)
        record.applied = True
        self._world.journal.finish(record, 101, "applied")
        connection = Connection(app, query["device_id"], ws, request, self._world)
        self._connections.append(connection)
        app.delivery.attach(connection)
        try:
            await connection.receive_until_closed()
        finally:
            connection.gone = True
            if not connection.silent:
                self.forget(connection)
        return ws

    def forget(self, connection: Connection) -> None:
        """The platform noticed that a connection is gone."""
        connection.closed_at = connection.closed_at or time.monotonic()
        connection.app.delivery.detach(connection)
        connection.app.touch()

    async def _refusal(self, app: App | None, device_id: str) -> Fault | None:
        """Why the handshake is refused, or None for a good one."""
        if app is None or not device_id:
            return FORBIDDEN
        fault = self._world.faults.take(app.app_id, UPGRADE, None)
        if fault is not None:
            await asyncio.sleep(fault.delay)
            if fault.answer != "normal":
                return fault
        return TOO_MANY if app.delivery.links >= CONNECTIONS else None
