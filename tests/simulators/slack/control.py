"""The control side, /control/...: each request names its app and team. See simulators/control.py."""

from aiohttp import web

from tests.simulators import control
from tests.simulators.control import FaultRoutes, JournalRoutes, StageRoutes
from tests.simulators.slack.control_acting import ActingRoutes
from tests.simulators.slack.control_reading import ReadingRoutes
from tests.simulators.slack.control_setup import SetupRoutes
from tests.simulators.slack.control_sockets import SocketRoutes
from tests.simulators.slack.faults import Fault
from tests.simulators.slack.routes import Routes
from tests.simulators.slack.sockets import SocketServer
from tests.simulators.slack.world import World


def add_routes(app: web.Application, world: World, sockets: SocketServer) -> None:
    """Add all control routes to the application."""
    named = Routes(world)
    control.add_routes(
        app,
        SetupRoutes(world),
        ActingRoutes(world),
        SocketRoutes(world, sockets),
        ReadingRoutes(world),
        JournalRoutes(world.journal),
        FaultRoutes(world.faults, Fault, world.released, lambda spec: named.app(spec).app_id, named.place),
        StageRoutes(world.clock, world.problems, "app"),
    )
