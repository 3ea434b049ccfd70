"""The websocket endpoint of Socket Mode: tickets, hello, ping and pong, acks, and how a socket ends."""

import asyncio
import json
from typing import Any, Literal

from aiohttp import WSMessage, WSMsgType, web

from tests.simulators.slack.delivery import MAX_SOCKETS
from tests.simulators.slack.errors import SlackError
from tests.simulators.slack.faults import SOCKET_UPGRADE
from tests.simulators.slack.ids import numbered
from tests.simulators.slack.journal import Record
from tests.simulators.slack.state import App, Json
from tests.simulators.slack.world import TICKET_SECONDS, World
from tests.simulators.sockets import Sockets, Websocket, upgrade

DisconnectReason = Literal["warning", "refresh_requested", "too_many_websockets", "link_disabled"]

# The answer to a used or old ticket; SDK issues show 408 and 409 from the real server.
STALE_TICKET_STATUS = 408
# The method reference lists no error for an app whose Socket Mode is off.
SOCKET_MODE_OFF = "forbidden_team"
CONNECTION_SECONDS = 18060
DEBUG_CONNECTION_SECONDS = 360


def open_connection(world: World, token: str, *, debug: bool = False) -> Json:
    """apps.connections.open: a url that is valid for one socket within half a minute."""
    app = world.app_of_token(token)
    if "connections:write" not in app.app_token_scopes:
        raise SlackError("missing_scope", needed="connections:write", provided=",".join(sorted(app.app_token_scopes)))
    if not app.socket_mode:
        raise SlackError(SOCKET_MODE_OFF)
    ticket = numbered("ticket-")
    world.tickets[ticket] = (app, world.clock.now())
    url = world.origin.replace("http", "ws", 1) + f"/link/?ticket={ticket}&app_id={app.app_id}"
    return {"url": url + "&debug_reconnects=true" if debug else url}


class Socket(Websocket[App]):
    """One websocket. pings: of the client, answered unless silent; pongs: answers to ours."""

    def __init__(self, app: App, ws: web.WebSocketResponse, transport: asyncio.BaseTransport | None) -> None:
        super().__init__(numbered("S"), app, ws, transport)
        self.pongs = 0

    async def disconnect(self, reason: DisconnectReason) -> None:
        """Announce the end in a disconnect frame."""
        await self.write(json.dumps({"type": "disconnect", "reason": reason, "debug_info": {"host": "applink"}}))

    async def take(self, message: WSMessage) -> None:
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
        return super().view() | {"pongs": self.pongs, "app": self.app.app_id}


class SocketServer(Sockets[Socket]):
    """Handler of /link/."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    async def link(self, request: web.Request) -> web.StreamResponse:
        """Handle the upgrade and the whole life of one socket."""
        asked = request.query.get("app_id")
        record = self._world.journal.arrive(
            Record(app_id=asked, method=SOCKET_UPGRADE, http_method=request.method, path="/link/")
        )
        app, refused = self._admit(request)
        if app is None:
            self._world.journal.finish(record, refused, "refused")
            return web.Response(status=refused, text="")
        ws = await upgrade(request)
        self._world.journal.finish(record, 101, "applied")
        link = Socket(app, ws, request.transport)
        self.add(link)
        await self._greet(link, debug="debug_reconnects" in request.query)
        await self.serve(link)
        return ws

    async def _greet(self, link: Socket, *, debug: bool) -> None:
        too_many = link.app.delivery.links >= MAX_SOCKETS
        await link.write(json.dumps(_hello(link.app, debug=debug)))
        if too_many:
            await link.disconnect("too_many_websockets")
            await link.close(1000)
        else:
            link.app.delivery.attach(link)

    def _admit(self, request: web.Request) -> tuple[App | None, int]:
        """The app of a valid ticket, or None and the status of the refusal. A ticket is valid for one socket."""
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
