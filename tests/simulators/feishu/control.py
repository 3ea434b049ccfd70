"""The control side, /control/...: each request names its app. See simulators/control.py."""

from collections.abc import Callable

from aiohttp import web

from tests.simulators import control
from tests.simulators.control import Action, FaultRoutes, JournalRoutes, StageRoutes
from tests.simulators.feishu import people, presses
from tests.simulators.feishu.control_connections import ConnectionRoutes
from tests.simulators.feishu.control_reading import ReadingRoutes
from tests.simulators.feishu.control_setup import SetupRoutes
from tests.simulators.feishu.controlling import Routes
from tests.simulators.feishu.events import envelope
from tests.simulators.feishu.faults import Fault
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
    named = Routes(world)
    control.add_routes(
        app,
        SetupRoutes(world),
        ActingRoutes(world),
        ConnectionRoutes(world, sockets),
        ReadingRoutes(world),
        JournalRoutes(world.journal),
        FaultRoutes(world.faults, Fault, world.released, lambda spec: named.app(spec).app_id, named.place),
        StageRoutes(world.clock, world.problems, "app"),
    )


class ActingRoutes(Routes):
    """Routes for actions of people, and raw events."""

    def actions(self) -> dict[str, Action]:
        return {name: self._action(deed) for name, deed in DEEDS.items()} | {"event": self.event}

    def _action(self, deed: Deed) -> Action:
        async def act(spec: Json) -> Json:
            return deed(self._world, self.app(spec), spec)

        return act

    async def event(self, spec: Json) -> Json:
        """Send a raw event, regardless of subscriptions; `header` overrides members of its header."""
        app = self.app(spec)
        payload = envelope(self._world, app, spec["type"], spec["event"])
        payload["header"] |= spec.get("header") or {}
        return {"event_id": app.delivery.post(payload).event_id}
