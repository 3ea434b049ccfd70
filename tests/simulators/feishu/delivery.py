"""The long connection's outbound side for one app: events, their acks, redelivery, and what tests do to them."""

import asyncio
import base64
import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tests.simulators.feishu import ids
from tests.simulators.feishu.envelopes import Envelope, Link, data_frames
from tests.simulators.feishu.frames import Frame

if TYPE_CHECKING:
    from tests.simulators.feishu.state import Chat

Json = dict[str, Any]
Disturbance = Literal["drop", "lose", "duplicate", "duplicate_message", "fragment"]

REMEMBERED = 20_000
OK = 200


@dataclass(frozen=True)
class Timing:
    """Seconds. ack_timeout: until a delivery counts as missed. retry_delays: before each repetition.

    The platform repeats after about 15 s, 5 min, 1 h and 6 h; here the schedule is compressed, and as long as no
    connection is open it stands still, because a gateway is back within six hours.
    """

    ack_timeout: float = 3.0
    retry_delays: tuple[float, ...] = (0.3, 0.6, 1.2, 2.4)


@dataclass
class _Planned:
    kind: Disturbance
    skip: int
    times: int
    order: tuple[int, ...]


class Delivery:
    """Hands each event to one of the app's connections in turn and repeats those that were not acked with 200."""

    def __init__(self, app_id: str, problem: Callable[[str | None, str], None]) -> None:
        self.timing = Timing()
        self.on_change: Callable[[], None] = lambda: None
        self.holding = False
        self._app_id = app_id
        self._problem = problem
        self._links: deque[Link] = deque()
        self._linked = asyncio.Event()
        self._envelopes: deque[Envelope] = deque(maxlen=REMEMBERED)
        self._on_wire: dict[str, Envelope] = {}
        self._planned: deque[_Planned] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0

    @property
    def links(self) -> int:
        """How many connections are open."""
        return len(self._links)

    @property
    def pending(self) -> int:
        """How many events are neither acked nor given up."""
        return len(self._tasks)

    def attach(self, link: Link) -> None:
        """A connection opened."""
        self._links.append(link)
        self._linked.set()
        self.on_change()

    def detach(self, link: Link) -> None:
        """A connection is gone; unknown ones are ignored."""
        if link in self._links:
            self._links.remove(link)
            self.on_change()
        if not self._links:
            self._linked.clear()

    def envelopes(self) -> list[Envelope]:
        """The newest events, in the order in which they were queued."""
        return list(self._envelopes)

    def find(self, event_id: str) -> Envelope | None:
        """The first delivery of an event."""
        return next((envelope for envelope in self._envelopes if envelope.event_id == event_id), None)

    def post(
        self,
        payload: Json,
        *,
        chat: "Chat | None" = None,
        message_id: str = "",
        repeats: bool = True,
        on_ack: Callable[[Json | None], None] | None = None,
    ) -> Envelope:
        """Queue an event; it goes out at once unless the delivery is held."""
        self._count += 1
        header = payload.get("header") or {}
        envelope = Envelope(
            self._count,
            str(header.get("event_id", "")),
            str(header.get("event_type", "")),
            payload,
            time.monotonic(),
            chat,
            message_id,
            repeats,
            on_ack=on_ack,
        )
        self._envelopes.append(envelope)
        if self.holding:
            envelope.state = "held"
        else:
            envelope.gate.set()
        if chat is not None:
            chat.pending += 1
        task = asyncio.create_task(self._run(envelope), name=f"event-{envelope.event_id}")
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._finished(done, envelope))
        self.on_change()
        return envelope

    def disturb(self, kind: Disturbance, skip: int, times: int, order: Sequence[int] = ()) -> None:
        """After `skip` events, let the next `times` ones be disturbed; order: of the fragments of "fragment"."""
        self._planned.append(_Planned(kind, skip, times, tuple(order)))

    def release(self, order: Sequence[int] | None) -> int:
        """Let held events go, in an order of positions (None: as they came); returns how many went."""
        held = [envelope for envelope in self._envelopes if envelope.state == "held"]
        chosen = held if order is None else [held[position] for position in order]
        for envelope in chosen:
            envelope.state = "waiting"
            envelope.gate.set()
        return len(chosen)

    def acknowledge(self, link: Link, frame: Frame) -> None:
        """A data frame came back over any connection: the echo with the handler's result."""
        envelope = self._on_wire.get(frame.header("message_id"))
        try:
            answer = json.loads(frame.payload)
            code = int(answer["code"])
            reply = json.loads(base64.b64decode(answer["data"])) if answer.get("data") else None
        except (ValueError, KeyError, TypeError) as error:
            self._problem(self._app_id, f"a data frame that is no ack: {error!r} {frame.payload[:200]!r}")
            return
        if envelope is None:
            self._problem(self._app_id, f"an ack of an unknown frame: {frame.header('message_id')}")
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

    async def close(self) -> None:
        """Give up all events."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _finished(self, task: asyncio.Task[None], envelope: Envelope) -> None:
        self._tasks.discard(task)
        if envelope.chat is not None:
            envelope.chat.pending -= 1
            envelope.chat.touch()
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._problem(self._app_id, f"the simulator could not deliver {envelope.event_type}: {failure!r}")
        self.on_change()

    async def _run(self, envelope: Envelope) -> None:
        await envelope.gate.wait()
        planned = self._next_disturbance()
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
        """Put the event on the next connection and wait for its ack; whether one with code 200 came in time."""
        while not self._links:
            await self._linked.wait()
        link = self._next_link()
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

    def _next_link(self) -> Link:
        self._links.rotate(-1)
        return self._links[-1]

    def _next_disturbance(self) -> _Planned | None:
        if not self._planned:
            return None
        planned = self._planned[0]
        if planned.skip > 0:
            planned.skip -= 1
            return None
        planned.times -= 1
        if planned.times <= 0:
            self._planned.popleft()
        return planned
