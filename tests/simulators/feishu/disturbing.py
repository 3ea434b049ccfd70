"""The disturbing part of the test client: faults, tokens, connections and events."""

from collections.abc import Sequence

from tests.simulators.client import WaitTimeoutError
from tests.simulators.feishu.acting import ActingClient, place_json
from tests.simulators.feishu.delivery import Disturbance
from tests.simulators.feishu.faults import Fault
from tests.simulators.feishu.seen import Place, SeenConnection, SeenEvent


class DisturbingClient(ActingClient):
    """Makes the platform misbehave for one app."""

    async def fail(
        self, method: str, fault: Fault, times: int = 1, *, chat: Place | None = None, skip: int = 0
    ) -> None:
        """Apply this fault to the next `times` calls of a method, after `skip` calls.

        method: a name of routes.ROUTES, "auth.token", "ws.endpoint", "ws.connect", "im.resource.get", a family such
        as "cardkit.*", or "*".
        """
        place = None if chat is None else place_json(chat)
        await self._ask("faults", method=method, fault=fault.to_json(), times=times, skip=skip, chat=place)

    async def expire_tokens(self) -> None:
        """Refuse the issued tenant tokens with 99991663 from now on; new ones are valid."""
        await self._ask("tokens")

    async def answer_pings(self, *, control: bool = True, protocol: bool = True) -> None:
        """Set whether control pings get a pong, and whether the websocket protocol's own pings do."""
        await self._ask("configure", pongs=control, ws_pongs=protocol)

    async def connections(self, *, live: bool = True) -> list[SeenConnection]:
        """The app's connections, oldest first; live: only those that the platform considers open."""
        seen = [SeenConnection(**connection) for connection in (await self._ask("sockets"))["sockets"]]
        return [connection for connection in seen if not (live and connection.closed_at is not None)]

    async def close_connections(self, code: int | None = 1000, *, connection: str | None = None) -> None:
        """Close with a code; None resets the TCP connections."""
        await self._ask("close-sockets", code=code, socket=connection)

    async def silence(self, silent: bool = True, *, connection: str | None = None) -> None:
        """Freeze connections: no pong of any kind, nothing read or written; events are still sent. False ends it."""
        await self._ask("silence", silent=silent, socket=connection)

    async def push_config(self, **client_config: int) -> None:
        """Send a pong with a changed ClientConfig (PingInterval, ReconnectInterval, ...), as the platform may."""
        await self._ask("configure", client_config=client_config)
        await self._ask("pong")

    async def send_raw_frame(self, data: bytes) -> None:
        """Send any bytes to all connections, valid frames (frames.encode) or not."""
        await self._ask("frame", hex=data.hex())

    async def hold_events(self, hold: bool = True) -> None:
        """Start (or stop) holding events until `release_events`."""
        await self._ask("hold", hold=hold)

    async def release_events(self, order: Sequence[int] | None = None) -> int:
        """Send held events, in an order of positions (None: as queued); returns how many."""
        return await self._release_held(order)

    async def disturb(self, kind: Disturbance, times: int = 1, *, skip: int = 0, order: Sequence[int] = ()) -> None:
        """Disturb events: "drop" (not sent, so repeated later), "lose" (never sent), "duplicate" (the same frame
        twice), "duplicate_message" (also under a second event id) or "fragment" (in parts, sent in this order)."""
        await self._ask("disturb", kind=kind, times=times, skip=skip, order=list(order))

    async def redeliver(self, event_id: str) -> int:
        """Deliver an earlier event again with the same event_id; returns its index, for `wait_event`."""
        return int((await self._ask("redeliver", event=event_id))["index"])

    async def events(self) -> list[SeenEvent]:
        """The newest events, in the order of queueing."""
        return [SeenEvent(**event) for event in (await self._ask("events"))["events"]]

    async def wait_event(self, event: str | int, timeout: float = 40.0) -> SeenEvent:
        """The event of an id (or an index), once it was acked with code 200, given up or lost."""
        seen = SeenEvent(**await self._ask("event-over", event=event, wait=timeout))
        if seen.state in ("held", "waiting", "sent"):
            raise WaitTimeoutError(f"{seen.event_type} {event} is still {seen.state} after {timeout} s: {seen.acks}")
        return seen

    async def wait_acked(self, event: str | int, timeout: float = 40.0) -> SeenEvent:
        """The same, requiring that it was acked."""
        seen = await self.wait_event(event, timeout)
        if seen.state != "acked":
            raise WaitTimeoutError(f"{seen.event_type} {event} ended {seen.state}: {seen.attempts} {seen.acks}")
        return seen
