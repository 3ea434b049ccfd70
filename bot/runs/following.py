"""Following runs: the newest events of each run, for readers that may disconnect and return, and change notifications.

Kept only for the accounts that need it (`Following.accounts`), so that it costs the others nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from cachetools import LRUCache

from harness.events import TextDelta, TextReset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bot.store.rows import RunRow
    from harness.events import AnyRunEvent

KEPT_EVENTS = 2_000
"""Most events kept of a run. For older ones readers get what is stored, and the message texts up to that point."""

KEPT_ENDED = 32
"""Streams kept of ended runs, for readers that connect slightly too late."""

Phase = Literal["working", "waiting", "ended"]


class RunStream:
    """The events of a run that works here. phase: "waiting" for a person's decision; "ended": no more events follow, as
    the run has ended or is suspended, according to its row."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.phase: Phase = "working"
        self.version = 0
        """Incremented with each change."""
        self.floor = 0
        """Number of the newest event that is no longer kept, 0 while all of this process are."""
        self.before: dict[str, str] = {}
        """Text of the events that are no longer kept, by message."""
        self._events: deque[AnyRunEvent] = deque()
        self._waiters = 0
        self._changed = asyncio.Event()

    def tell(self, event: AnyRunEvent) -> None:
        """Keep an event, replacing the oldest if there are KEPT_EVENTS, and wake the readers."""
        if not self._events and not self.floor:
            self.floor = event.seq - 1
        self._events.append(event)
        if len(self._events) > KEPT_EVENTS:
            self._drop(self._events.popleft())
        self._wake()

    def enter(self, phase: Phase) -> None:
        self.phase = phase
        self._wake()

    def _drop(self, event: AnyRunEvent) -> None:
        self.floor = event.seq
        if isinstance(event, TextDelta):
            self.before[event.message_id] = self.before.get(event.message_id, "") + event.text
        elif isinstance(event, TextReset):
            self.before.pop(event.message_id, None)

    def kept(self) -> tuple[AnyRunEvent, ...]:
        """The newest events, oldest first."""
        return tuple(self._events)

    def since(self, seq: int) -> list[AnyRunEvent]:
        """The kept events after that number."""
        fresh = []
        for event in reversed(self._events):
            if event.seq <= seq:
                break
            fresh.append(event)
        fresh.reverse()
        return fresh

    async def newer(self, version: int) -> None:
        """Wait until something has changed since that version."""
        while self.version == version:
            self._waiters += 1
            try:
                await self._changed.wait()
            finally:
                self._waiters -= 1

    def _wake(self) -> None:
        self.version += 1
        if self._waiters:
            self._changed.set()
            self._changed = asyncio.Event()


class Following:
    """The streams of the runs that work here, by run, and the watchers of each conversation."""

    def __init__(self) -> None:
        self.accounts: frozenset[str] = frozenset()
        """Accounts whose runs can be followed, from their next start on."""
        self._streams: dict[str, RunStream] = {}
        self._ended: LRUCache[str, RunStream] = LRUCache(KEPT_ENDED)
        self._watching: dict[str, set[asyncio.Event]] = {}

    def begin(self, row: RunRow) -> RunStream | None:
        """Open the stream of a run that becomes active; None if it cannot be followed."""
        if row.address.account not in self.accounts:
            return None
        stream = self._streams[row.run_id] = RunStream(row.run_id)
        self._ended.pop(row.run_id, None)
        self.note(row.conversation)
        return stream

    def end(self, row: RunRow) -> None:
        """End the stream of a run that is no longer worked on; its row says why."""
        stream = self._streams.pop(row.run_id, None)
        if stream is not None:
            self._ended[row.run_id] = stream
            stream.enter("ended")
            self.note(row.conversation)

    def of(self, run_id: str) -> RunStream | None:
        """The stream of a run that works here or waits for a person, or did so recently."""
        return self._streams.get(run_id) or self._ended.get(run_id)

    def note(self, conversation: str) -> None:
        """Wake the watchers after a possible change: a run opened, refused, begun or ended."""
        for event in self._watching.get(conversation, ()):
            event.set()

    @contextmanager
    def watch(self, conversation: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set at each change; the watcher clears it before reading."""
        event = asyncio.Event()
        self._watching.setdefault(conversation, set()).add(event)
        try:
            yield event
        finally:
            watching = self._watching[conversation]
            watching.discard(event)
            if not watching:
                del self._watching[conversation]
