"""Control routes for sockets and envelopes that are specific to Slack."""

from tests.simulators import control_sockets
from tests.simulators.control import Action, ControlError
from tests.simulators.slack.routes import Routes
from tests.simulators.slack.sockets import Socket, SocketServer
from tests.simulators.slack.state import Json
from tests.simulators.slack.world import World


class SocketRoutes(control_sockets.SocketRoutes[Socket]):
    """Sockets and envelopes: how Socket Mode misbehaves."""

    def __init__(self, world: World, sockets: SocketServer) -> None:
        self._named = Routes(world)
        super().__init__(sockets, self._named.app)

    def actions(self) -> dict[str, Action]:
        return super().actions() | {
            "disconnect": self.disconnect,
            "ping": self.ping,
            "disturb": self.disturb,
            "redeliver": self.redeliver,
        }

    async def disconnect(self, spec: Json) -> Json:
        """Send disconnect frames with a reason; `close`: also close. link_disabled turns Socket Mode off."""
        chosen = self.chosen(spec)
        if spec["reason"] == "link_disabled":
            self._named.app(spec).socket_mode = False
        for socket in chosen:
            await socket.disconnect(spec["reason"])
            if spec.get("close"):
                await socket.close(1000)
        return {"sockets": [socket.id for socket in chosen]}

    async def ping(self, spec: Json) -> Json:
        """Ping the client, as the platform does; answers count in the socket's `pongs`."""
        for socket in self.chosen(spec):
            await socket.ws.ping(b"Ping from applink")
        return {}

    async def disturb(self, spec: Json) -> Json:
        """Drop, lose or duplicate the next envelopes, or duplicate their event."""
        self._named.app(spec).delivery.disturbances.add(spec["kind"], times=spec["times"], skip=spec["skip"])
        return {}

    async def redeliver(self, spec: Json) -> Json:
        """Deliver an earlier event again, under a new envelope, as a late retry."""
        delivery = self._named.app(spec).delivery
        envelope = delivery.find(spec["event"])
        if envelope is None:
            raise ControlError(f"unknown event {spec['event']}")
        again = delivery.post(
            envelope.type,
            envelope.payload,
            channel=envelope.chat,
            first_attempt=int(spec["attempt"]),
            first_reason="timeout",
        )
        return {"envelope_id": again.envelope_id}
