"""A Socket Mode envelope with its attempts and its ack; delivery.py sends them."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from tests.simulators.slack.state import Channel

Json = dict[str, Any]
EnvelopeType = Literal["events_api", "interactive", "slash_commands"]
EnvelopeState = Literal["held", "waiting", "sent", "acked", "failed", "lost"]


@dataclass
class Attempt:
    """One time that an envelope was put on a socket, or would have been (socket None). Monotonic seconds."""

    number: int
    reason: str
    socket: str | None
    at: float


@dataclass
class Envelope:
    """A frame that wants an ack. `on_ack` gets the ack's payload, for envelopes that accept one."""

    index: int
    envelope_id: str
    type: EnvelopeType
    payload: Json
    queued_at: float
    channel: "Channel | None" = None
    event_id: str = ""
    accepts_payload: bool = False
    first_attempt: int = 0
    first_reason: str = ""
    state: EnvelopeState = "waiting"
    attempts: list[Attempt] = field(default_factory=list)
    acked_at: float | None = None
    ack_payload: Json | None = None
    on_ack: Callable[[Json | None], None] | None = None
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    acked: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def open(self) -> bool:
        """Whether something may still happen to it."""
        return self.state in ("held", "waiting", "sent")

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
        """What tests read."""
        event = self.payload.get("event", {})
        return {
            "index": self.index,
            "envelope_id": self.envelope_id,
            "type": self.type,
            "event_id": self.event_id,
            "event_type": event.get("type", self.payload.get("type", self.type)),
            "channel": self.channel.id if self.channel else None,
            "ts": event.get("ts"),
            "state": self.state,
            "queued_at": self.queued_at,
            "attempts": [asdict(attempt) for attempt in self.attempts],
            "acked_at": self.acked_at,
            "ack_payload": self.ack_payload,
        }
