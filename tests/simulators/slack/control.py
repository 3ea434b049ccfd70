"""The control side, /control/...: tests act for people, queue faults, handle sockets, read records. JSON in and out.

Each request names its app and team. Long polls take `wait` in seconds. A mistake of the test is a 400 with
{"error": ...}.
"""

import json
from collections.abc import Awaitable, Callable

from aiohttp import web

from tests.simulators.slack.control_acting import ActingRoutes
from tests.simulators.slack.control_reading import ReadingRoutes
from tests.simulators.slack.control_setup import SetupRoutes
from tests.simulators.slack.control_sockets import SocketRoutes
from tests.simulators.slack.people import ControlError
from tests.simulators.slack.routes import Action
from tests.simulators.slack.sockets import SocketServer
from tests.simulators.slack.world import World


def add_routes(app: web.Application, world: World, sockets: SocketServer) -> None:
    """Add all control routes to the application."""
    groups = (SetupRoutes(world), ActingRoutes(world), SocketRoutes(world, sockets), ReadingRoutes(world, sockets))
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
