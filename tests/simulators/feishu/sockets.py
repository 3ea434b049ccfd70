"""The long connection: its endpoint, the upgrade, control frames, acks, and how a connection ends."""

import asyncio
import json
from urllib.parse import urlencode

from aiohttp import WSMessage, WSMsgType, web

from tests.simulators.feishu import ids
from tests.simulators.feishu.basics import authenticated
from tests.simulators.feishu.calls import Call
from tests.simulators.feishu.errors import FeishuError
from tests.simulators.feishu.faults import UPGRADE, Fault, refused_connection
from tests.simulators.feishu.frames import CONTROL, DATA, Frame, FrameError, decode, encode
from tests.simulators.feishu.journal import Record
from tests.simulators.feishu.limits import CONNECTIONS
from tests.simulators.feishu.state import App, Json
from tests.simulators.feishu.world import World
from tests.simulators.sockets import Sockets, Websocket, upgrade

SERVICE_ID = 33554678
FORBIDDEN = refused_connection(403, None, "forbidden")
TOO_MANY = refused_connection(514, 1000040350, "exceed_conn_limit")


def open_endpoint(world: World, call: Call) -> Json:
    """POST callback/ws/endpoint: a URL for one connection, with the settings for pings and retries."""
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


class Connection(Websocket[App]):
    """One websocket. pings: control frames of the client, ws_pings: the protocol's own, acks: data frames."""

    def __init__(self, app: App, device_id: str, ws: web.WebSocketResponse, request: web.Request, world: World) -> None:
        super().__init__(device_id, app, ws, request.transport)
        self.service_id = SERVICE_ID
        self.ws_pings = 0
        self.acks = 0
        self._world = world

    async def send(self, frame: Frame) -> None:
        """Write a frame."""
        await self.write(encode(frame))

    async def take(self, message: WSMessage) -> None:
        if message.type is WSMsgType.PING:
            self.ws_pings += 1
            if self.app.ws_pongs:
                await self.ws.pong(message.data)
        elif message.type is WSMsgType.BINARY:
            await self._take_frame(message.data)
        elif message.type is not WSMsgType.PONG:
            self._refuse(message.type.name)

    async def _take_frame(self, data: bytes) -> None:
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
        """Note a frame that no client may send: the test fails at its end."""
        self.bad_frames.append(what)
        self._world.problems.add(self.app.app_id, f"a bad frame: {what}")

    async def pong(self) -> None:
        """Send a control pong; depending on the app's settings it has a ClientConfig, which the SDK obeys at once."""
        config = json.dumps(self.app.client_config).encode() if self.app.config_in_pong else b""
        await self.send(Frame(CONTROL, self.service_id, (("type", "pong"),), config))

    def view(self) -> Json:
        return super().view() | {"ws_pings": self.ws_pings, "acks": self.acks}


class SocketServer(Sockets[Connection]):
    """Handler of /ws/v2."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    async def connect(self, request: web.Request) -> web.StreamResponse:
        """Handle the upgrade and the whole life of one connection."""
        query = request.query
        app = self._world.apps.get(query.get("app", ""))
        record = Record(app_id=app.app_id if app else None, method=UPGRADE, http_method="GET", path="/ws/v2")
        self._world.journal.arrive(record)
        refusal = await self._refusal(app, query.get("device_id", ""))
        if refusal is not None or app is None:
            refusal = refusal or FORBIDDEN
            self._world.journal.finish(record, refusal.status, refusal.name)
            return web.Response(status=refusal.status, headers=refusal.headers)
        ws = await upgrade(request)
        record.applied = True
        self._world.journal.finish(record, 101, "applied")
        connection = Connection(app, query["device_id"], ws, request, self._world)
        self.add(connection)
        app.delivery.attach(connection)
        await self.serve(connection)
        return ws

    async def _refusal(self, app: App | None, device_id: str) -> Fault | None:
        """Why the handshake is refused, None for a valid one."""
        if app is None or not device_id:
            return FORBIDDEN
        fault = self._world.faults.take(app.app_id, UPGRADE, None)
        if fault is not None:
            await asyncio.sleep(fault.delay)
            if fault.answer != "normal":
                return fault
        return TOO_MANY if app.delivery.links >= CONNECTIONS else None
