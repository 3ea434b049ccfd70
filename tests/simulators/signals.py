"""Waiting in the simulators' long polls: a repeatable signal, the parties that fire it, conditions and quiet times."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


class Signal:
    """A signal: `fire` wakes all current waiters; an earlier firing wakes none."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    def fire(self) -> None:
        """Wake all current waiters."""
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds (None: for ever); False when it ran out."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        done, _ = await asyncio.wait([waiter], timeout=timeout)
        self._waiters.discard(waiter)
        return bool(done)


@dataclass(kw_only=True)
class Party:
    """An account or a chat that tests watch. in_flight: calls in progress. last_activity: monotonic seconds."""

    in_flight: int = 0
    revision: int = 0
    last_activity: float = 0.0
    changed: Signal = field(default_factory=Signal)

    def touch(self) -> None:
        """Note a visible change and wake the watchers."""
        self.revision += 1
        self.stir()

    def stir(self) -> None:
        """Note an activity without a visible change, such as an ack."""
        self.last_activity = time.monotonic()
        self.changed.fire()


@dataclass(kw_only=True)
class Place(Party):
    """A conversation. pending: its events that are neither acked nor given up."""

    pending: int = 0


class Addressee(Protocol):
    """A party to which events are sent. pending: those that are neither acked nor given up."""

    in_flight: int
    last_activity: float
    changed: Signal

    @property
    def pending(self) -> int: ...


async def wait_until(signal: Signal, condition: Callable[[], bool], wait: float) -> bool:
    """Whether the condition became true within `wait` seconds; it is checked at each firing of the signal."""
    deadline = time.monotonic() + wait
    while not condition():
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return False
        await signal.wait(remaining)
    return True


async def wait_idle(party: Addressee, quiet: float, wait: float) -> bool:
    """Whether, within `wait` seconds, there was a period of `quiet` seconds without pending events or running calls."""
    deadline = time.monotonic() + wait
    while True:
        now = time.monotonic()
        still = party.last_activity + quiet - now
        busy = party.pending > 0 or party.in_flight > 0
        if not busy and still <= 0:
            return True
        if now >= deadline:
            return False
        await party.changed.wait(min(deadline - now, deadline - now if busy else still))
