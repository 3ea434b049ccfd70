"""StreamBridge: one run's events for several readers, none of which can slow the run down or miss how it ended."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from harness.ports import AnyRunEvent

CAPACITY = 256


@dataclass(frozen=True, slots=True)
class Gap:
    """A reader fell behind: events up to `seq` were dropped for it. It goes on from the run's state."""

    seq: int


class StreamBridge:
    """Publishes without waiting. Each reader has a bounded buffer; when it is full the oldest events become a Gap."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._readers: set[_Reader] = set()
        self._closed = False

    def publish(self, event: AnyRunEvent) -> None:
        for reader in self._readers:
            reader.put(event, self._capacity)

    def close(self) -> None:
        """No more events: every reader ends after what it still has. Idempotent."""
        self._closed = True
        for reader in self._readers:
            reader.wake.set()

    async def read(self) -> AsyncIterator[AnyRunEvent | Gap]:
        """Events from now on, until `close`."""
        reader = _Reader()
        self._readers.add(reader)
        try:
            while True:
                while reader.gap is not None or reader.events:
                    yield reader.take()
                if self._closed:
                    return
                reader.wake.clear()
                await reader.wake.wait()
        finally:
            self._readers.discard(reader)


class _Reader:
    __slots__ = ("events", "gap", "wake")

    def __init__(self) -> None:
        self.events: deque[AnyRunEvent] = deque()
        self.gap: int | None = None
        self.wake = asyncio.Event()

    def put(self, event: AnyRunEvent, capacity: int) -> None:
        if len(self.events) >= capacity:
            self.gap = self.events.popleft().seq
        self.events.append(event)
        self.wake.set()

    def take(self) -> AnyRunEvent | Gap:
        if self.gap is not None:
            gap, self.gap = Gap(self.gap), None
            return gap
        return self.events.popleft()
