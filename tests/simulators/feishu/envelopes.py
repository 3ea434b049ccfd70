"""An event in transit to an app, and the data frames that carry it."""

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.simulators import delivery
from tests.simulators.feishu.frames import DATA, Frame
from tests.simulators.feishu.state import Chat

Json = dict[str, Any]


class Link(Protocol):
    """An open connection as the delivery sees it."""

    @property
    def id(self) -> str: ...
    @property
    def service_id(self) -> int: ...
    async def send(self, frame: Frame) -> None: ...


@dataclass(kw_only=True)
class Envelope(delivery.Envelope[Chat]):
    """One event in transit. attempts: {link, at, parts}; acks: {link, at, code, biz_rt}; reply: the handler's answer.

    repeats: False for callbacks of cards, which are sent only once; people see an error instead.
    """

    event_type: str
    message_id: str = ""
    repeats: bool = True
    attempts: list[Json] = field(default_factory=list)
    acks: list[Json] = field(default_factory=list)
    reply: Json | None = None
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def title(self) -> str:
        return self.event_type

    def view(self) -> Json:
        names = ("index", "event_id", "event_type", "state", "queued_at", "attempts", "acks", "reply", "message_id")
        return {name: getattr(self, name) for name in names} | {"chat_id": self.chat.chat_id if self.chat else None}


def data_frames(envelope: Envelope, link: Link, wire_id: str, parts: int) -> list[Frame]:
    """The event as data frames; if there are several, they share the message_id and the client joins them."""
    payload = json.dumps(envelope.payload).encode()
    step = -(-len(payload) // parts)
    return [
        Frame(
            DATA,
            link.service_id,
            (
                ("type", "event"),
                ("message_id", wire_id),
                ("sum", str(parts)),
                ("seq", str(part)),
                ("trace_id", f"trace-{wire_id}"),
                ("timestamp", str(int(time.time() * 1000))),
            ),
            payload[part * step : (part + 1) * step],
            seq_id=envelope.index,
            log_id=envelope.index,
            payload_encoding="utf-8",
            payload_type="application/json",
        )
        for part in range(parts)
    ]
