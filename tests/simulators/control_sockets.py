"""Control routes for websockets and the events sent over them: how a long connection misbehaves."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, Generic

from tests.simulators.control import Action, ControlError, Json
from tests.simulators.delivery import Envelope
from tests.simulators.signals import wait_until
from tests.simulators.sockets import SocketApp, Sockets, SocketT


class SocketRoutes(Generic[SocketT]):
    """The routes that Slack and Feishu share. app: returns the one that a request names."""

    def __init__(self, sockets: Sockets[SocketT], app: Callable[[Json], SocketApp]) -> None:
        self._sockets = sockets
        self._app = app

    def actions(self) -> dict[str, Action]:
        return {
            "connected": self._connected,
            "sockets": self._list,
            "close-sockets": self._close,
            "silence": self._silence,
            "frame": self._frame,
            "timing": self._timing,
            "hold": self._hold,
            "release-events": self._release,
            "events": self._events,
            "event-over": self._event_over,
        }

    def chosen(self, spec: Json) -> list[SocketT]:
        """The socket that the request names, or all live ones of the app."""
        live = self._sockets.of(self._app(spec))
        if spec.get("socket") is None:
            return live
        chosen = [socket for socket in live if socket.id == spec["socket"]]
        if not chosen:
            raise ControlError(f"no open socket {spec['socket']}")
        return chosen

    def event(self, spec: Json) -> Envelope[Any]:
        """The event that the request names."""
        found: Envelope[Any] | None = self._app(spec).delivery.find(spec["event"])
        if found is None:
            raise ControlError(f"unknown event {spec['event']}")
        return found

    async def _connected(self, spec: Json) -> Json:
        """Wait until the app has exactly `count` open sockets; `more`: or more. pings: that many of them seen."""
        app, count = self._app(spec), int(spec["count"])

        def reached() -> bool:
            enough = app.delivery.links == count or (bool(spec.get("more")) and app.delivery.links > count)
            return enough and sum(socket.pings for socket in self._sockets.of(app)) >= int(spec["pings"])

        reached_it = await wait_until(app.changed, reached, float(spec["wait"]))
        return {"connected": reached_it, "links": app.delivery.links}

    async def _list(self, spec: Json) -> Json:
        """List all sockets that the app ever had, oldest first."""
        return {"sockets": [socket.view() for socket in self._sockets.of(self._app(spec), live=False)]}

    async def _close(self, spec: Json) -> Json:
        """Close with a code, or (if it is None) reset the TCP connections."""
        chosen = self.chosen(spec)
        for socket in chosen:
            if spec.get("code") is None:
                socket.abort()
            else:
                await socket.close(int(spec["code"]))
        return {"sockets": [socket.id for socket in chosen]}

    async def _silence(self, spec: Json) -> Json:
        """Make sockets half-open: nothing is read or written, events still go to them. False: drop the lost ones."""
        chosen = self.chosen(spec)
        for socket in chosen:
            socket.silent = bool(spec["silent"])
            if not socket.silent and socket.gone:
                self._sockets.forget(socket)
        return {"sockets": [socket.id for socket in chosen]}

    async def _frame(self, spec: Json) -> Json:
        """Send raw text, or raw bytes given as hex."""
        for socket in self.chosen(spec):
            await socket.write(spec["text"] if "text" in spec else bytes.fromhex(spec["hex"]))
        return {}

    async def _timing(self, spec: Json) -> Json:
        """Set ack_timeout and retry_delays, in seconds; absent values stay."""
        delivery = self._app(spec).delivery
        changes = {name: spec[name] for name in ("ack_timeout", "retry_delays") if spec.get(name) is not None}
        if "retry_delays" in changes:
            changes["retry_delays"] = tuple(changes["retry_delays"])
        delivery.timing = replace(delivery.timing, **changes)
        return asdict(delivery.timing)

    async def _hold(self, spec: Json) -> Json:
        """Start (or stop) holding events until `release-events`."""
        self._app(spec).delivery.holding = bool(spec["hold"])
        return {}

    async def _release(self, spec: Json) -> Json:
        """Send held events, in an order of positions."""
        try:
            return {"released": self._app(spec).delivery.release(spec.get("order"))}
        except IndexError:
            raise ControlError(f"not that many events are held: {spec['order']}") from None

    async def _events(self, spec: Json) -> Json:
        """Return the newest events of the app."""
        return {"events": [envelope.view() for envelope in self._app(spec).delivery.envelopes()]}

    async def _event_over(self, spec: Json) -> Json:
        """Wait until an event is finished: acked, given up or lost."""
        found = self.event(spec)
        await wait_until(self._app(spec).changed, lambda: not found.open, float(spec["wait"]))
        return found.view()
