"""Control routes for connections and events that are specific to Feishu."""

from tests.simulators.control import Action, ControlError
from tests.simulators.control_sockets import SocketRoutes
from tests.simulators.feishu.controlling import Routes
from tests.simulators.feishu.delivery import Disturbed
from tests.simulators.feishu.sockets import Connection, SocketServer
from tests.simulators.feishu.state import Json
from tests.simulators.feishu.world import World


class ConnectionRoutes(SocketRoutes[Connection]):
    """Connections and events: how the long connection misbehaves."""

    def __init__(self, world: World, sockets: SocketServer) -> None:
        self._named = Routes(world)
        super().__init__(sockets, self._named.app)

    def actions(self) -> dict[str, Action]:
        return super().actions() | {"pong": self.pong, "disturb": self.disturb, "redeliver": self.redeliver}

    async def pong(self, spec: Json) -> Json:
        """Send a control pong without a ping, carrying the app's ClientConfig."""
        for connection in self.chosen(spec):
            await connection.pong()
        return {}

    async def disturb(self, spec: Json) -> Json:
        """Drop, lose, duplicate or fragment the next events, or duplicate their message."""
        disturbed = Disturbed(spec["kind"], tuple(spec["order"]))
        self._named.app(spec).delivery.disturbances.add(disturbed, times=spec["times"], skip=spec["skip"])
        return {}

    async def redeliver(self, spec: Json) -> Json:
        """Deliver an earlier event again with the same event_id, as after a late retry; returns its index."""
        delivery = self._named.app(spec).delivery
        known = delivery.find(spec["event"])
        if known is None:
            raise ControlError(f"unknown event {spec['event']}")
        again = delivery.post(known.payload, chat=known.chat, message_id=known.message_id)
        return {"index": again.index}
