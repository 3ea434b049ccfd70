"""The part of the test client that disturbs: faults, limits, the clock, sockets and envelopes."""

from collections.abc import Sequence
from typing import Any, Literal

from tests.simulators.slack.acting import ActingClient, place_json
from tests.simulators.slack.faults import Fault
from tests.simulators.slack.seen import Place, SeenEnvelope, SeenSocket

Disturbance = Literal["drop", "lose", "duplicate", "duplicate_event"]
DisconnectReason = Literal["warning", "refresh_requested", "too_many_websockets", "link_disabled"]


class WaitTimeoutError(AssertionError):
    """What a test waited for did not happen; the text shows what did."""


class DisturbingClient(ActingClient):
    """Makes the platform misbehave for one app."""

    async def fail(
        self, method: str, fault: Fault, times: int = 1, *, chat: Place | None = None, skip: int = 0
    ) -> None:
        """After `skip` calls, the next `times` calls of a method ("*": any; see faults for others) meet this fault."""
        place = None if chat is None else place_json(chat)
        await self._ask("faults", method=method, fault=fault.to_json(), times=times, skip=skip, channel=place)

    async def clear_faults(self) -> None:
        """Forget all queued faults of this app."""
        await self._ask("clear-faults")

    async def release(self) -> None:
        """Let all calls that `faults.hold` stopped go on."""
        await self._ask("release")

    async def set_limits(self, **limits: Any) -> None:
        """Change rate limits (limits.Limits); `enforce=True` makes the simulator answer 429."""
        await self._ask("limits", **limits)

    async def refusals(self) -> dict[str, int]:
        """How many calls of each method the limits refused, or would have if enforced."""
        return {name: int(count) for name, count in (await self._ask("refusals")).items()}

    async def advance(self, seconds: float) -> None:
        """Turn the platform's clock forward: streams, statuses, triggers and rate windows age."""
        await self._ask("clock", seconds=seconds)

    async def set_timing(
        self, *, ack_timeout: float | None = None, retry_delays: Sequence[float] | None = None
    ) -> None:
        """Seconds until an envelope counts as missed (3), and before each repetition of an event (0, 60, 300)."""
        delays = None if retry_delays is None else list(retry_delays)
        await self._ask("timing", ack_timeout=ack_timeout, retry_delays=delays)

    async def wait_connected(self, count: int = 1, *, more: bool = False, timeout: float = 10.0) -> None:
        """Until the app has exactly `count` open sockets (`more`: or more)."""
        answer = await self._ask("connected", count=count, more=more, wait=timeout)
        if not answer["connected"]:
            raise WaitTimeoutError(f"{answer['links']} sockets instead of {count} after {timeout} s")

    async def sockets(self, *, live: bool = True) -> list[SeenSocket]:
        """The app's sockets, oldest first; live: only those that the platform takes for open."""
        seen = [SeenSocket(**socket) for socket in (await self._ask("sockets"))["sockets"]]
        return [socket for socket in seen if not (live and socket.closed_at is not None)]

    async def disconnect(self, reason: DisconnectReason, *, close: bool = False, socket: str | None = None) -> None:
        """Send disconnect frames, close=True: and close. link_disabled turns Socket Mode off (`configure` it on)."""
        await self._ask("disconnect", reason=reason, close=close, socket=socket)

    async def close_sockets(self, code: int | None = 1000, *, socket: str | None = None) -> None:
        """Close with a code; None resets the TCP connections."""
        await self._ask("close-sockets", code=code, socket=socket)

    async def silence(self, silent: bool = True, *, socket: str | None = None) -> None:
        """Half-open sockets: no pong, nothing read or written, events still go there. False ends it."""
        await self._ask("silence", silent=silent, socket=socket)

    async def ping_client(self) -> None:
        """Ping the app's sockets from the platform's side; answers count in SeenSocket.pongs."""
        await self._ask("ping")

    async def send_frame(self, text: str) -> None:
        """A raw text frame to all sockets."""
        await self._ask("frame", text=text)

    async def hold_envelopes(self, hold: bool = True) -> None:
        """From now on (or no longer) envelopes wait for `release_envelopes`."""
        await self._ask("hold", hold=hold)

    async def release_envelopes(self, order: Sequence[int] | None = None) -> int:
        """Let held envelopes go, in an order of positions (None: as they came); returns how many."""
        chosen = None if order is None else list(order)
        return int((await self._ask("release-envelopes", order=chosen))["released"])

    async def disturb(self, kind: Disturbance, times: int = 1, *, skip: int = 0) -> None:
        """The next envelopes: "drop" (not sent, so repeated later), "lose" (never sent), "duplicate" (sent twice) or
        "duplicate_event" (a second envelope with the same event id)."""
        await self._ask("disturb", kind=kind, times=times, skip=skip)

    async def redeliver(self, event_id: str, *, attempt: int = 1) -> str:
        """Deliver an event of the past again as a retry; returns the new envelope's id."""
        return str((await self._ask("redeliver", event_id=event_id, attempt=attempt))["envelope_id"])

    async def envelopes(self) -> list[SeenEnvelope]:
        """The newest envelopes, in the order in which they were queued."""
        return [SeenEnvelope(**envelope) for envelope in (await self._ask("envelopes"))["envelopes"]]

    async def wait_envelope(self, key: str, timeout: float = 10.0) -> SeenEnvelope:
        """The envelope of an event id or envelope id, once it was acked, given up or lost."""
        envelope = SeenEnvelope(**await self._ask("envelope", id=key, wait=timeout))
        if envelope.state in ("held", "waiting", "sent"):
            raise WaitTimeoutError(f"{envelope.event_type} {key} is still {envelope.state} after {timeout} s")
        return envelope

    async def wait_acked(self, key: str, timeout: float = 10.0) -> SeenEnvelope:
        """The same, and it must have been acked."""
        envelope = await self.wait_envelope(key, timeout)
        if envelope.state != "acked":
            raise WaitTimeoutError(f"{envelope.event_type} {key} ended {envelope.state}: {envelope.attempts}")
        return envelope
