"""Control routes for sockets and envelopes: how Socket Mode misbehaves."""

from dataclasses import asdict, replace

from tests.simulators.slack.people import ControlError
from tests.simulators.slack.routes import Action, Routes
from tests.simulators.slack.sockets import Socket, SocketServer
from tests.simulators.slack.state import Json
from tests.simulators.slack.world import World


class SocketRoutes(Routes):
    """Sockets and envelopes: how Socket Mode misbehaves."""

    def __init__(self, world: World, sockets: SocketServer) -> None:
        super().__init__(world)
        self._sockets = sockets

    def actions(self) -> dict[str, Action]:
        return {
            "timing": self.timing,
            "disconnect": self.disconnect,
            "close-sockets": self.close_sockets,
            "silence": self.silence,
            "ping": self.ping,
            "frame": self.frame,
            "hold": self.hold,
            "release-envelopes": self.release_envelopes,
            "disturb": self.disturb,
            "redeliver": self.redeliver,
        }

    def _chosen(self, spec: Json) -> list[Socket]:
        """The socket that the request names, or all live ones of the app."""
        live = self._sockets.of(self.app(spec))
        if spec.get("socket") is None:
            return live
        chosen = [socket for socket in live if socket.id == spec["socket"]]
        if not chosen:
            raise ControlError(f"no open socket {spec['socket']}")
        return chosen

    async def timing(self, spec: Json) -> Json:
        """ack_timeout and retry_delays in seconds; absent values stay."""
        delivery = self.app(spec).delivery
        changes = {name: spec[name] for name in ("ack_timeout", "retry_delays") if spec.get(name) is not None}
        if "retry_delays" in changes:
            changes["retry_delays"] = tuple(changes["retry_delays"])
        delivery.timing = replace(delivery.timing, **changes)
        return asdict(delivery.timing)

    async def disconnect(self, spec: Json) -> Json:
        """Send disconnect frames with a reason; `close`: also close. link_disabled turns Socket Mode off."""
        chosen = self._chosen(spec)
        if spec["reason"] == "link_disabled":
            self.app(spec).socket_mode = False
        for socket in chosen:
            await socket.disconnect(spec["reason"])
            if spec.get("close"):
                await socket.close(1000)
        return {"sockets": [socket.id for socket in chosen]}

    async def close_sockets(self, spec: Json) -> Json:
        """Close with a code, or (code None) reset the TCP connections."""
        chosen = self._chosen(spec)
        for socket in chosen:
            if spec.get("code") is None:
                socket.abort()
            else:
                await socket.close(int(spec["code"]))
        return {"sockets": [socket.id for socket in chosen]}

    async def silence(self, spec: Json) -> Json:
        """Half-open sockets: nothing is read or written, events still go to them. False: those left behind end."""
        chosen = self._chosen(spec)
        for socket in chosen:
            socket.silent = bool(spec["silent"])
            if not socket.silent and socket.gone:
                self._sockets.forget(socket)
        return {"sockets": [socket.id for socket in chosen]}

    async def ping(self, spec: Json) -> Json:
        """Ping the client, as the platform does; answers count in the socket's `pongs`."""
        for socket in self._chosen(spec):
            await socket.ws.ping(b"Ping from applink")
        return {}

    async def frame(self, spec: Json) -> Json:
        """A raw text frame."""
        for socket in self._chosen(spec):
            await socket.send(spec["text"])
        return {}

    async def hold(self, spec: Json) -> Json:
        """From now on envelopes wait for `release-envelopes`."""
        self.app(spec).delivery.holding = bool(spec["hold"])
        return {}

    async def release_envelopes(self, spec: Json) -> Json:
        """Let held envelopes go, in an order of positions."""
        try:
            return {"released": self.app(spec).delivery.release(spec.get("order"))}
        except IndexError:
            raise ControlError(f"not that many envelopes are held: {spec['order']}") from None

    async def disturb(self, spec: Json) -> Json:
        """drop, lose, duplicate or duplicate_event for the next envelopes."""
        self.app(spec).delivery.disturb(spec["kind"], int(spec.get("skip", 0)), int(spec.get("times", 1)))
        return {}

    async def redeliver(self, spec: Json) -> Json:
        """Deliver an earlier event again, under a new envelope, as a late retry."""
        delivery = self.app(spec).delivery
        envelope = delivery.find(spec["event_id"])
        if envelope is None:
            raise ControlError(f"unknown event {spec['event_id']}")
        again = delivery.post(
            envelope.type,
            envelope.payload,
            channel=envelope.channel,
            first_attempt=int(spec.get("attempt", 1)),
            first_reason="timeout",
        )
        return {"envelope_id": again.envelope_id}
