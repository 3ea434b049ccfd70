"""Events sent over an app's long connections: queued, held, disturbed, and counted until they are finished."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from tests.simulators.faults import Turns
from tests.simulators.signals import Place

Json = dict[str, Any]
State = Literal["held", "waiting", "sent", "acked", "failed", "lost"]
REMEMBERED = 20_000
ChatT = TypeVar("ChatT", bound=Place)
EnvelopeT = TypeVar("EnvelopeT", bound="Envelope[Any]")
LinkT = TypeVar("LinkT")
DisturbanceT = TypeVar("DisturbanceT")


@dataclass(frozen=True)
class Timing:
    """Times in seconds. ack_timeout: until a delivery counts as missed. retry_delays: before each repetition."""

    ack_timeout: float
    retry_delays: tuple[float, ...]


@dataclass(kw_only=True)
class Envelope(Generic[ChatT]):
    """One event in transit. queued_at: monotonic seconds; the delivery gives it its index.

    on_ack: called with the app's answer. gate: open once it may be sent.
    """

    index: int = 0
    event_id: str = ""
    payload: Json
    queued_at: float = field(default_factory=time.monotonic)
    chat: ChatT | None = None
    state: State = "waiting"
    on_ack: Callable[[Json | None], None] | None = None
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def open(self) -> bool:
        """Whether it is not finished yet."""
        return self.state in ("held", "waiting", "sent")

    @property
    def title(self) -> str:
        """A readable description."""
        raise NotImplementedError

    @property
    def keys(self) -> tuple[str | int, ...]:
        """The keys by which tests refer to it."""
        return (self.event_id, self.index)

    def view(self) -> Json:
        """The state that tests read."""
        raise NotImplementedError


class Delivery(Generic[EnvelopeT, LinkT, DisturbanceT]):
    """The outbound side of one app: its links (open connections) in turn, and the envelopes sent over them.

    problem: called with what must fail the test. on_change: called after each change.
    """

    def __init__(self, app_id: str, problem: Callable[[str | None, str], None], timing: Timing) -> None:
        self.timing = timing
        self.on_change: Callable[[], None] = lambda: None
        self.holding = False
        self.disturbances: Turns[DisturbanceT] = Turns()
        self._app_id = app_id
        self._report = problem
        self._links: deque[LinkT] = deque()
        self._envelopes: deque[EnvelopeT] = deque(maxlen=REMEMBERED)
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0

    @property
    def links(self) -> int:
        """Number of open connections."""
        return len(self._links)

    @property
    def pending(self) -> int:
        """Number of envelopes that are neither acked nor given up."""
        return len(self._tasks)

    def attach(self, link: LinkT) -> None:
        """Add an opened connection."""
        self._links.append(link)
        self.on_change()

    def detach(self, link: LinkT) -> None:
        """Remove a lost connection; unknown ones are ignored."""
        if link in self._links:
            self._links.remove(link)
            self.on_change()

    def envelopes(self) -> list[EnvelopeT]:
        """The newest envelopes, in the order in which they were queued."""
        return list(self._envelopes)

    def find(self, key: str | int) -> EnvelopeT | None:
        """The first envelope with this key."""
        return next((envelope for envelope in self._envelopes if key in envelope.keys), None)

    def release(self, order: Sequence[int] | None) -> int:
        """Send held envelopes, in an order of positions (None: as queued); returns how many were sent."""
        held = [envelope for envelope in self._envelopes if envelope.state == "held"]
        chosen = held if order is None else [held[position] for position in order]
        for envelope in chosen:
            envelope.state = "waiting"
            envelope.gate.set()
        return len(chosen)

    async def close(self) -> None:
        """Give up all envelopes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def problem(self, text: str) -> None:
        """Report something that the app did and that must fail the test."""
        self._report(self._app_id, text)

    def queue(self, envelope: EnvelopeT, run: Callable[[EnvelopeT], Coroutine[Any, Any, None]]) -> EnvelopeT:
        """Run an envelope; its `gate` opens at once unless the delivery is held."""
        self._count += 1
        envelope.index = self._count
        self._envelopes.append(envelope)
        if self.holding:
            envelope.state = "held"
        else:
            envelope.gate.set()
        if envelope.chat is not None:
            envelope.chat.pending += 1
        task = asyncio.create_task(run(envelope), name=f"{envelope.title} {envelope.index}")
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._finished(done, envelope))
        self.on_change()
        return envelope

    def _finished(self, task: asyncio.Task[None], envelope: EnvelopeT) -> None:
        self._tasks.discard(task)
        if envelope.chat is not None:
            envelope.chat.pending -= 1
            envelope.chat.stir()
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.problem(f"the simulator could not deliver {envelope.title}: {failure!r}")
        self.on_change()

    def next_link(self) -> LinkT | None:
        """The connection whose turn it is, None while none is open."""
        if not self._links:
            return None
        self._links.rotate(-1)
        return self._links[-1]
