"""Control routes for connections and events: how the long connection misbehaves."""

from dataclasses import asdict, replace

from tests.simulators.feishu.controlling import Action, Routes
from tests.simulators.feishu.people import ControlError
from tests.simulators.feishu.sockets import Connection, SocketServer
from tests.simulators.feishu.state import Json
from tests.simulators.feishu.world import World


class ConnectionRoutes(Routes):
    """Connections and events: how the long connection misbehaves."""

    def __init__(self, world: World, sockets: SocketServer) -> None:
        super().__init__(world)
        self._sockets = sockets

    def actions(self) -> dict[str, Action]:
        return {
            "timing": self.timing,
            "close-connections": self.close_connections,
            "silence": self.silence,
            "pong": self.pong,
            "frame": self.frame,
            "hold": self.hold,
            "release-events": self.release_events,
            "disturb": self.disturb,
            "redeliver": self.redeliver,
        }

    def _chosen(self, spec: Json) -> list[Connection]:
        """The connection that the request names, or all live ones of the app."""
        live = self._sockets.of(self.app(spec))
        if spec.get("connection") is None:
            return live
        chosen = [connection for connection in live if connection.id == spec["connection"]]
        if not chosen:
            raise ControlError(f"no open connection {spec['connection']}")
        return chosen

    async def timing(self, spec: Json) -> Json:
        """ack_timeout and retry_delays in seconds; absent values stay."""
        delivery = self.app(spec).delivery
        changes = {name: spec[name] for name in ("ack_timeout", "retry_delays") if spec.get(name) is not None}
        if "retry_delays" in changes:
            changes["retry_delays"] = tuple(changes["retry_delays"])
        delivery.timing = replace(delivery.timing, **changes)
        return asdict(delivery.timing)

    async def close_connections(self, spec: Json) -> Json:
        """Close with a code, or (code None) reset the TCP connections."""
        chosen = self._chosen(spec)
        for connection in chosen:
            if spec.get("code") is None:
                connection.abort()
            else:
                await connection.close(int(spec["code"]))
        return {"connections": [connection.id for connection in chosen]}

    async def silence(self, spec: Json) -> Json:
        """Half-open connections: nothing is read or written, events still go to them. False: those left behind end."""
        chosen = self._chosen(spec)
        for connection in chosen:
            connection.silent = bool(spec["silent"])
            if not connection.silent and connection.gone:
                self._sockets.forget(connection)
        return {"connections": [connection.id for connection in chosen]}

    async def pong(self, spec: Json) -> Json:
        """A control pong without a ping, which brings the app's ClientConfig to the client."""
        for connection in self._chosen(spec):
            await connection.pong()
        return {}

    async def frame(self, spec: Json) -> Json:
        """Raw bytes, as hex."""
        for connection in self._chosen(spec):
            await connection.send_raw(bytes.fromhex(spec["hex"]))
        return {}

    async def hold(self, spec: Json) -> Json:
        """From now on events wait for `release-events`."""
        self.app(spec).delivery.holding = bool(spec["hold"])
        return {}

    async def release_events(self, spec: Json) -> Json:
        """Let held events go, in an order of positions."""
        try:
            return {"released": self.app(spec).delivery.release(spec.get("order"))}
        except IndexError:
            raise ControlError(f"not that many events are held: {spec['order']}") from None

    async def disturb(self, spec: Json) -> Json:
        """drop, lose, duplicate, duplicate_message or fragment for the next events."""
        skip, times = int(spec.get("skip", 0)), int(spec.get("times", 1))
        self.app(spec).delivery.disturb(spec["kind"], skip, times, spec.get("order") or ())
        return {}

    async def redeliver(self, spec: Json) -> Json:
        """Deliver an earlier event again with the same event_id, as after a late retry; its index."""
        delivery = self.app(spec).delivery
        known = delivery.find(spec["event_id"])
        if known is None:
            raise ControlError(f"unknown event {spec['event_id']}")
        again = delivery.post(known.payload, chat=known.chat, message_id=known.message_id)
        return {"index": again.index}
