"""The long connection's outbound side for one app: events, their acks and their redelivery."""

import asyncio
import base64
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from tests.simulators import delivery
from tests.simulators.delivery import REMEMBERED, Timing
from tests.simulators.feishu import ids
from tests.simulators.feishu.envelopes import Envelope, Link, data_frames
from tests.simulators.feishu.frames import Frame
from tests.simulators.feishu.state import Chat

Json = dict[str, Any]
Disturbance = Literal["drop", "lose", "duplicate", "duplicate_message", "fragment"]

OK = 200
# The platform repeats after about 15 s, 5 min, 1 h and 6 h; here the schedule is compressed, and it pauses while no
# connection is open, because a gateway is back within six hours.
TIMING = Timing(ack_timeout=3.0, retry_delays=(0.3, 0.6, 1.2, 2.4))


@dataclass(frozen=True)
class Disturbed:
    """A disturbance of an event; order: of the fragments, for "fragment"."""

    kind: Disturbance
    order: tuple[int, ...] = ()


class Delivery(delivery.Delivery[Envelope, Link, Disturbed]):
    """Hands each event to one of the app's connections in turn and repeats those that were not acked with 200."""

    def __init__(self, app_id: str, problem: Callable[[str | None, str], None]) -> None:
        super().__init__(app_id, problem, TIMING)
        self._linked = asyncio.Event()
        self._on_wire: dict[str, Envelope] = {}

    def attach(self, link: Link) -> None:
        super().attach(link)
        self._linked.set()

    def detach(self, link: Link) -> None:
        super().detach(link)
        if not self.links:
            self._linked.clear()

    def post(
        self,
        payload: Json,
        *,
        chat: Chat | None = None,
        message_id: str = "",
        repeats: bool = True,
        on_ack: Callable[[Json | None], None] | None = None,
    ) -> Envelope:
        """Queue an event; it is sent at once unless the delivery is held."""
        header = payload.get("header") or {}
        envelope = Envelope(
            event_id=str(header.get("event_id", "")),
            event_type=str(header.get("event_type", "")),
            payload=payload,
            chat=chat,
            message_id=message_id,
            repeats=repeats,
            on_ack=on_ack,
        )
        return self.queue(envelope, self._run)

    def acknowledge(self, link: Link, frame: Frame) -> None:
        """Handle a data frame returned over any connection: the echo with the handler's result."""
        envelope = self._on_wire.get(frame.header("message_id"))
        try:
            answer = json.loads(frame.payload)
            code = int(answer["code"])
            reply = json.loads(base64.b64decode(answer["data"])) if answer.get("data") else None
        except (ValueError, KeyError, TypeError) as error:
            self.problem(f"a data frame that is no ack: {error!r} {frame.payload[:200]!r}")
            return
        if envelope is None:
            self.problem(f"an ack of an unknown frame: {frame.header('message_id')}")
            return
        ack = {"link": link.id, "at": time.monotonic(), "code": code, "biz_rt": frame.header("biz_rt")}
        envelope.acks.append(ack)
        if code == OK:
            if envelope.reply is None:
                envelope.reply = reply
            if envelope.on_ack is not None:
                envelope.on_ack(reply)
                envelope.on_ack = None
        envelope.answered.set()
        self.on_change()

    async def _run(self, envelope: Envelope) -> None:
        await envelope.gate.wait()
        planned = self.disturbances.next()
        kind = planned.kind if planned else None
        if kind == "lose":
            envelope.state = "lost"
            return
        if kind == "duplicate_message":
            again = {**envelope.payload, "header": {**envelope.payload["header"], "event_id": ids.numbered("event-")}}
            self.post(again, chat=envelope.chat, message_id=envelope.message_id)
        for delay in (0.0, *(self.timing.retry_delays if envelope.repeats else ())):
            if delay > 0:
                await asyncio.sleep(delay)
            if await self._attempt(envelope, kind, planned.order if planned else ()):
                envelope.state = "acked"
                return
            kind = None
        envelope.state = "failed"

    async def _attempt(self, envelope: Envelope, kind: Disturbance | None, order: tuple[int, ...]) -> bool:
        """Send the event over the next connection; returns whether an ack with code 200 arrived in time."""
        while (link := self.next_link()) is None:
            await self._linked.wait()
        wire_id = ids.numbered("frame-")
        self._on_wire[wire_id] = envelope
        if len(self._on_wire) > REMEMBERED:
            del self._on_wire[next(iter(self._on_wire))]
        envelope.answered.clear()
        answered = len(envelope.acks)
        frames = data_frames(envelope, link, wire_id, len(order) or 1)
        envelope.attempts.append({"link": link.id, "at": time.monotonic(), "parts": len(frames)})
        envelope.state = "sent"
        copies = 0 if kind == "drop" else 2 if kind == "duplicate" else 1
        for _ in range(copies):
            for position in order or (0,):
                await link.send(frames[position])
        self.on_change()
        try:
            await asyncio.wait_for(envelope.answered.wait(), self.timing.ack_timeout)
        except TimeoutError:
            return False
        return any(ack["code"] == OK for ack in envelope.acks[answered:])
