"""A Socket Mode envelope with its attempts and its ack; delivery.py sends them."""

import asyncio
import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from tests.simulators import delivery
from tests.simulators.slack.state import Channel

Json = dict[str, Any]
EnvelopeType = Literal["events_api", "interactive", "slash_commands"]


@dataclass
class Attempt:
    """One attempt to send an envelope over a socket (None if none was open). Monotonic seconds."""

    number: int
    reason: str
    socket: str | None
    at: float


@dataclass(kw_only=True)
class Envelope(delivery.Envelope[Channel]):
    """A frame that requires an ack; the ack's payload is passed to `on_ack`, for envelopes that accept one."""

    envelope_id: str
    type: EnvelopeType
    accepts_payload: bool = False
    first_attempt: int = 0
    first_reason: str = ""
    attempts: list[Attempt] = field(default_factory=list)
    acked_at: float | None = None
    ack_payload: Json | None = None
    acked: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def title(self) -> str:
        return self.type

    @property
    def keys(self) -> tuple[str | int, ...]:
        return (self.envelope_id, self.event_id)

    def frame(self, number: int, reason: str) -> str:
        """The text frame of one attempt."""
        body: Json = {
            "envelope_id": self.envelope_id,
            "payload": self.payload,
            "type": self.type,
            "accepts_response_payload": self.accepts_payload,
        }
        if self.type == "events_api":
            body.update(retry_attempt=number, retry_reason=reason)
        return json.dumps(body)

    def view(self) -> Json:
        event = self.payload.get("event", {})
        return {
            "index": self.index,
            "envelope_id": self.envelope_id,
            "type": self.type,
            "event_id": self.event_id,
            "event_type": event.get("type", self.payload.get("type", self.type)),
            "channel": self.chat.id if self.chat else None,
            "ts": event.get("ts"),
            "state": self.state,
            "queued_at": self.queued_at,
            "attempts": [asdict(attempt) for attempt in self.attempts],
            "acked_at": self.acked_at,
            "ack_payload": self.ack_payload,
        }
