"""The control side, /control/...: tests act for people, queue faults, handle connections, read. JSON in and out.

Each request names its app. Long polls take `wait` in seconds. A mistake of the test is a 400 with {"error": ...}.
"""

import json
from collections.abc import Awaitable, Callable

from aiohttp import web

from tests.simulators.feishu import people, presses
from tests.simulators.feishu.control_connections import ConnectionRoutes
from tests.simulators.feishu.control_reading import ReadingRoutes
from tests.simulators.feishu.control_setup import SetupRoutes
from tests.simulators.feishu.controlling import Action, Routes
from tests.simulators.feishu.events import envelope
from tests.simulators.feishu.people import ControlError
from tests.simulators.feishu.sockets import SocketServer
from tests.simulators.feishu.state import App, Json
from tests.simulators.feishu.world import World

Deed = Callable[[World, App, Json], Json]

DEEDS: dict[str, Deed] = {
    "say": people.say,
    "repeat": people.repeat,
    "recall": people.recall,
    "react": people.react,
    "membership": people.membership,
    "enter": people.enter,
    "press": presses.press,
}


def add_routes(app: web.Application, world: World, sockets: SocketServer) -> None:
    """Add all control routes to the application."""
    groups: tuple[Routes, ...] = (
        SetupRoutes(world),
        ActingRoutes(world),
        ConnectionRoutes(world, sockets),
        ReadingRoutes(world, sockets),
    )
    for group in groups:
        for name, action in group.actions().items():
            app.router.add_post(f"/control/{name}", _handler(action))


def _handler(action: Action) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        try:
            result = await action(json.loads(body) if body else {})
        except ControlError as mistake:
            return web.Response(status=400, body=json.dumps({"error": str(mistake)}).encode())
        return web.Response(body=json.dumps(result).encode(), content_type="application/json")

    return handle


class ActingRoutes(Routes):
    """What people do, and raw events."""

    def actions(self) -> dict[str, Action]:
        return {name: self._action(deed) for name, deed in DEEDS.items()} | {"event": self.event}

    def _action(self, deed: Deed) -> Action:
        async def act(spec: Json) -> Json:
            return deed(self._world, self.app(spec), spec)

        return act

    async def event(self, spec: Json) -> Json:
        """A raw event, delivered whatever the app is subscribed to; `header` overrides members of its header."""
        app = self.app(spec)
        payload = envelope(self._world, app, spec["type"], spec["event"])
        payload["header"] |= spec.get("header") or {}
        return {"event_id": app.delivery.post(payload).event_id}
