"""The disturbing part of the test client: faults, sockets and envelopes."""

from collections.abc import Sequence
from typing import Literal

from tests.simulators.client import WaitTimeoutError
from tests.simulators.slack.acting import ActingClient, place_json
from tests.simulators.slack.faults import Fault
from tests.simulators.slack.seen import Place, SeenEnvelope, SeenSocket

Disturbance = Literal["drop", "lose", "duplicate", "duplicate_event"]
DisconnectReason = Literal["warning", "refresh_requested", "too_many_websockets", "link_disabled"]


class DisturbingClient(ActingClient):
    """Makes the platform misbehave for one app."""

    async def fail(
        self, method: str, fault: Fault, times: int = 1, *, chat: Place | None = None, skip: int = 0
    ) -> None:
        """Apply this fault to the next `times` calls of a method ("*": any; see faults), after `skip` calls."""
        place = None if chat is None else place_json(chat)
        await self._ask("faults", method=method, fault=fault.to_json(), times=times, skip=skip, channel=place)

    async def sockets(self, *, live: bool = True) -> list[SeenSocket]:
        """The app's sockets, oldest first; live: only those that the platform considers open."""
        seen = [SeenSocket(**socket) for socket in (await self._ask("sockets"))["sockets"]]
        return [socket for socket in seen if not (live and socket.closed_at is not None)]

    async def disconnect(self, reason: DisconnectReason, *, close: bool = False, socket: str | None = None) -> None:
        """Send disconnect frames, close=True: and close. link_disabled turns Socket Mode off (`configure` it on)."""
        await self._ask("disconnect", reason=reason, close=close, socket=socket)

    async def close_sockets(self, code: int | None = 1000, *, socket: str | None = None) -> None:
        """Close with a code; None resets the TCP connections."""
        await self._ask("close-sockets", code=code, socket=socket)

    async def silence(self, silent: bool = True, *, socket: str | None = None) -> None:
        """Make sockets half-open: no pong, nothing read or written, but events are still sent. False ends it."""
        await self._ask("silence", silent=silent, socket=socket)

    async def ping_client(self) -> None:
        """Ping the app's sockets from the platform's side; answers count in SeenSocket.pongs."""
        await self._ask("ping")

    async def send_frame(self, text: str) -> None:
        """Send a raw text frame to all sockets."""
        await self._ask("frame", text=text)

    async def hold_envelopes(self, hold: bool = True) -> None:
        """Start (or stop) holding envelopes until `release_envelopes`."""
        await self._ask("hold", hold=hold)

    async def release_envelopes(self, order: Sequence[int] | None = None) -> int:
        """Send held envelopes, in an order of positions (None: as queued); returns how many."""
        return await self._release_held(order)

    async def disturb(self, kind: Disturbance, times: int = 1, *, skip: int = 0) -> None:
        """Disturb envelopes: "drop" (not sent, so repeated later), "lose" (never sent), "duplicate" (sent twice) or
        "duplicate_event" (a second envelope with the same event id)."""
        await self._ask("disturb", kind=kind, times=times, skip=skip)

    async def redeliver(self, event_id: str, *, attempt: int = 1) -> str:
        """Deliver an earlier event again as a retry; returns the new envelope's id."""
        return str((await self._ask("redeliver", event=event_id, attempt=attempt))["envelope_id"])

    async def envelopes(self) -> list[SeenEnvelope]:
        """The newest envelopes, in the order of queueing."""
        return [SeenEnvelope(**envelope) for envelope in (await self._ask("events"))["events"]]

    async def wait_envelope(self, key: str, timeout: float = 40.0) -> SeenEnvelope:
        """The envelope of an event id or envelope id, once it is acked, given up or lost."""
        envelope = SeenEnvelope(**await self._ask("event-over", event=key, wait=timeout))
        if envelope.state in ("held", "waiting", "sent"):
            raise WaitTimeoutError(f"{envelope.event_type} {key} is still {envelope.state} after {timeout} s")
        return envelope

    async def wait_acked(self, key: str, timeout: float = 40.0) -> SeenEnvelope:
        """The same, requiring that it was acked."""
        envelope = await self.wait_envelope(key, timeout)
        if envelope.state != "acked":
            raise WaitTimeoutError(f"{envelope.event_type} {key} ended {envelope.state}: {envelope.attempts}")
        return envelope
