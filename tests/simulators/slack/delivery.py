"""Socket Mode's outbound side for one app: envelopes, their acks, redelivery, and what tests do to them."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from tests.simulators.slack.envelopes import Attempt, Envelope, EnvelopeType, Json
from tests.simulators.slack.ids import numbered

if TYPE_CHECKING:
    from tests.simulators.slack.state import Channel

Disturbance = Literal["drop", "lose", "duplicate", "duplicate_event"]

REMEMBERED = 20_000
MAX_SOCKETS = 10
# The platform documents "timeout" only; what it says when no socket was open is a guess.
NO_ACK = "timeout"
NO_SOCKET = "timeout"


@dataclass(frozen=True)
class Timing:
    """Seconds. ack_timeout: until an envelope counts as missed; retry_delays: before the 1st, 2nd, 3rd repetition."""

    ack_timeout: float = 3.0
    retry_delays: tuple[float, ...] = (0.0, 60.0, 300.0)


class Link(Protocol):
    """An open socket as the delivery sees it."""

    @property
    def id(self) -> str: ...
    async def send(self, text: str) -> None: ...


@dataclass
class _Planned:
    kind: Disturbance
    skip: int
    times: int


class Delivery:
    """Hands each envelope to one of the app's sockets in turn and repeats events that were not acked."""

    def __init__(self, app_id: str, problem: Callable[[str | None, str], None]) -> None:
        self.timing = Timing()
        self.on_change: Callable[[], None] = lambda: None
        self.holding = False
        self._app_id = app_id
        self._problem = problem
        self._links: deque[Link] = deque()
        self._envelopes: deque[Envelope] = deque(maxlen=REMEMBERED)
        self._by_id: dict[str, Envelope] = {}
        self._planned: deque[_Planned] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0

    @property
    def links(self) -> int:
        """How many sockets are open."""
        return len(self._links)

    @property
    def pending(self) -> int:
        """How many envelopes are neither acked nor given up."""
        return len(self._tasks)

    def attach(self, link: Link) -> None:
        """A socket opened."""
        self._links.append(link)
        self.on_change()

    def detach(self, link: Link) -> None:
        """A socket is gone; unknown ones are ignored."""
        if link in self._links:
            self._links.remove(link)
            self.on_change()

    def envelopes(self) -> list[Envelope]:
        """The newest envelopes, in the order in which they were queued."""
        return list(self._envelopes)

    def find(self, key: str) -> Envelope | None:
        """The first envelope with this id, or of the event with this id."""
        return next((e for e in self._envelopes if key in (e.envelope_id, e.event_id)), None)

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
        """Queue an envelope; it goes out at once unless the delivery is held."""
        self._count += 1
        envelope = Envelope(
            self._count,
            numbered("envelope-"),
            kind,
            payload,
            time.monotonic(),
            channel,
            event_id=payload.get("event_id", ""),
            accepts_payload=kind != "events_api",
            first_attempt=first_attempt,
            first_reason=first_reason,
            on_ack=on_ack,
        )
        self._remember(envelope)
        if self.holding:
            envelope.state = "held"
        else:
            envelope.gate.set()
        if channel is not None:
            channel.pending += 1
        task = asyncio.create_task(self._run(envelope), name=envelope.envelope_id)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._finished(done, envelope))
        self.on_change()
        return envelope

    def disturb(self, kind: Disturbance, skip: int, times: int) -> None:
        """After `skip` envelopes, let the next `times` ones be dropped, lost or doubled."""
        self._planned.append(_Planned(kind, skip, times))

    def release(self, order: list[int] | None) -> int:
        """Let held envelopes go, in an order of positions (None: as they came); returns how many went."""
        held = [envelope for envelope in self._envelopes if envelope.state == "held"]
        chosen = held if order is None else [held[position] for position in order]
        for envelope in chosen:
            envelope.state = "waiting"
            envelope.gate.set()
        return len(chosen)

    def acknowledge(self, envelope_id: str, payload: Json | None) -> None:
        """An ack came in over any socket."""
        envelope = self._by_id.get(envelope_id)
        if envelope is None:
            self._problem(self._app_id, f"an ack of an unknown envelope: {envelope_id}")
            return
        if payload and not envelope.accepts_payload:
            self._problem(self._app_id, f"an ack with a payload for an envelope that accepts none: {payload}")
        if envelope.acked_at is None:
            envelope.acked_at, envelope.ack_payload = time.monotonic(), payload
            envelope.acked.set()
            if envelope.on_ack is not None:
                envelope.on_ack(payload)

    async def close(self) -> None:
        """Give up all envelopes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _remember(self, envelope: Envelope) -> None:
        if len(self._envelopes) == REMEMBERED:
            del self._by_id[self._envelopes[0].envelope_id]
        self._envelopes.append(envelope)
        self._by_id[envelope.envelope_id] = envelope

    def _finished(self, task: asyncio.Task[None], envelope: Envelope) -> None:
        self._tasks.discard(task)
        if envelope.channel is not None:
            envelope.channel.pending -= 1
            envelope.channel.last_activity = time.monotonic()
            envelope.channel.changed.fire()
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._problem(self._app_id, f"the simulator could not deliver {envelope.type}: {failure!r}")
        self.on_change()

    async def _run(self, envelope: Envelope) -> None:
        await envelope.gate.wait()
        disturbance = self._next_disturbance()
        if disturbance == "lose":
            envelope.state = "lost"
            return
        if disturbance == "duplicate_event":
            self.post(envelope.type, envelope.payload, channel=envelope.channel)
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
        """Put the envelope on the next socket and wait for its ack; whether that came in time."""
        link = self._next_link()
        envelope.attempts.append(Attempt(number, reason, link.id if link else None, time.monotonic()))
        if link is None:
            return False
        envelope.state = "sent"
        if disturbance != "drop":
            await link.send(envelope.frame(number, reason))
        if disturbance == "duplicate" and (second := self._next_link()) is not None:
            await second.send(envelope.frame(number, reason))
        self.on_change()
        try:
            await asyncio.wait_for(envelope.acked.wait(), self.timing.ack_timeout)
        except TimeoutError:
            return False
        return True

    def _next_link(self) -> Link | None:
        if not self._links:
            return None
        self._links.rotate(-1)
        return self._links[-1]

    def _next_disturbance(self) -> Disturbance | None:
        if not self._planned:
            return None
        planned = self._planned[0]
        if planned.skip > 0:
            planned.skip -= 1
            return None
        planned.times -= 1
        if planned.times <= 0:
            self._planned.popleft()
        return planned.kind
