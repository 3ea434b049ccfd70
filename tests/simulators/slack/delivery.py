"""Socket Mode's outbound side for one app: envelopes, their acks and their redelivery."""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

from tests.simulators import delivery
from tests.simulators.delivery import REMEMBERED, Timing
from tests.simulators.slack.envelopes import Attempt, Envelope, EnvelopeType, Json
from tests.simulators.slack.ids import numbered

if TYPE_CHECKING:
    from tests.simulators.slack.state import Channel

Disturbance = Literal["drop", "lose", "duplicate", "duplicate_event"]

MAX_SOCKETS = 10
TIMING = Timing(ack_timeout=3.0, retry_delays=(0.0, 60.0, 300.0))
# The platform documents "timeout" only; the reason used when no socket was open is a guess.
NO_ACK = "timeout"
NO_SOCKET = "timeout"


class Link(Protocol):
    """An open socket as the delivery sees it."""

    @property
    def id(self) -> str: ...
    async def write(self, data: str) -> None: ...


class Delivery(delivery.Delivery[Envelope, Link, Disturbance]):
    """Hands each envelope to one of the app's sockets in turn and repeats events that were not acked."""

    def __init__(self, app_id: str, problem: Callable[[str | None, str], None]) -> None:
        super().__init__(app_id, problem, TIMING)
        self._by_id: dict[str, Envelope] = {}

    def post(
        self,
        kind: EnvelopeType,
        payload: Json,
        *,
        channel: "Channel | None" = None,
        on_ack: Callable[[Json | None], None] | None = None,
        first_attempt: int = 0,
        first_reason: str = "",
    ) -> Envelope:
        """Queue an envelope; it is sent at once unless the delivery is held."""
        envelope = Envelope(
            envelope_id=numbered("envelope-"),
            type=kind,
            payload=payload,
            chat=channel,
            event_id=payload.get("event_id", ""),
            accepts_payload=kind != "events_api",
            first_attempt=first_attempt,
            first_reason=first_reason,
            on_ack=on_ack,
        )
        self._by_id[envelope.envelope_id] = envelope
        if len(self._by_id) > REMEMBERED:
            del self._by_id[next(iter(self._by_id))]
        return self.queue(envelope, self._run)

    def acknowledge(self, envelope_id: str, payload: Json | None) -> None:
        """Handle an ack from any socket."""
        envelope = self._by_id.get(envelope_id)
        if envelope is None:
            self.problem(f"an ack of an unknown envelope: {envelope_id}")
            return
        if payload and not envelope.accepts_payload:
            self.problem(f"an ack with a payload for an envelope that accepts none: {payload}")
        if envelope.acked_at is None:
            envelope.acked_at, envelope.ack_payload = time.monotonic(), payload
            envelope.acked.set()
            if envelope.on_ack is not None:
                envelope.on_ack(payload)

    async def _run(self, envelope: Envelope) -> None:
        await envelope.gate.wait()
        disturbance = self.disturbances.next()
        if disturbance == "lose":
            envelope.state = "lost"
            return
        if disturbance == "duplicate_event":
            self.post(envelope.type, envelope.payload, channel=envelope.chat)
        number, reason = envelope.first_attempt, envelope.first_reason
        for delay in (0.0, *self.timing.retry_delays[number:]):
            if delay > 0:
                await asyncio.sleep(delay)
            if await self._attempt(envelope, number, reason, disturbance):
                envelope.state = "acked"
                return
            disturbance = None
            number, reason = number + 1, NO_ACK if envelope.attempts[-1].socket else NO_SOCKET
            if envelope.type != "events_api":
                break
        envelope.state = "failed"

    async def _attempt(self, envelope: Envelope, number: int, reason: str, disturbance: Disturbance | None) -> bool:
        """Send the envelope over the next socket; returns whether its ack arrived in time."""
        link = self.next_link()
        envelope.attempts.append(Attempt(number, reason, link.id if link else None, time.monotonic()))
        if link is None:
            return False
        envelope.state = "sent"
        if disturbance != "drop":
            await link.write(envelope.frame(number, reason))
        if disturbance == "duplicate" and (second := self.next_link()) is not None:
            await second.write(envelope.frame(number, reason))
        self.on_change()
        try:
            await asyncio.wait_for(envelope.acked.wait(), self.timing.ack_timeout)
        except TimeoutError:
            return False
        return True
