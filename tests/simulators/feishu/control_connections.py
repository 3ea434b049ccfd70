"""Control routes for what is Feishu's own of connections and events."""

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
        """A control pong without a ping, which brings the app's ClientConfig to the client."""
        for connection in self.chosen(spec):
            await connection.pong()
        return {}

    async def disturb(self, spec: Json) -> Json:
        """drop, lose, duplicate, duplicate_message or fragment for the next events."""
        disturbed = Disturbed(spec["kind"], tuple(spec["order"]))
        self._named.app(spec).delivery.disturbances.add(disturbed, times=spec["times"], skip=spec["skip"])
        return {}

    async def redeliver(self, spec: Json) -> Json:
        """Deliver an earlier event again with the same event_id, as after a late retry; its index."""
        delivery = self._named.app(spec).delivery
        known = delivery.find(spec["event"])
        if known is None:
            raise ControlError(f"unknown event {spec['event']}")
        again = delivery.post(known.payload, chat=known.chat, message_id=known.message_id)
        return {"index": again.index}
