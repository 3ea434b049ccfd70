"""Following runs: the newest events of each run for readers that come, go and come back, and word of changes.

Kept only for the accounts whose readers ask for it (`Following.accounts`), so that it costs the others nothing.
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
"""Of one run. Of older ones readers are told what is stored of them, and the texts as they are by then."""

KEPT_ENDED = 32
"""Streams of runs that have ended, for readers that come a moment too late."""

Phase = Literal["working", "waiting", "ended"]


class RunStream:
    """What a run that works here has told. phase: "waiting" for a person's decision; "ended": it tells no more, for it
    has ended or is put aside, as its row says."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.phase: Phase = "working"
        self.version = 0
        """Grows with each change."""
        self.floor = 0
        """Number of the newest event that is not kept any more, 0 while all of this process are."""
        self.before: dict[str, str] = {}
        """Text by message of the events that are not kept any more."""
        self._events: deque[AnyRunEvent] = deque()
        self._waiters = 0
        self._changed = asyncio.Event()

    def tell(self, event: AnyRunEvent) -> None:
        """Keep an event, in place of the oldest where there are KEPT_EVENTS, and wake the readers."""
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
        """The kept events behind that number."""
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
    """The streams of the runs that work here, by run, and who waits for news of a conversation."""

    def __init__(self) -> None:
        self.accounts: frozenset[str] = frozenset()
        """Whose runs can be followed, from their next start on."""
        self._streams: dict[str, RunStream] = {}
        self._ended: LRUCache[str, RunStream] = LRUCache(KEPT_ENDED)
        self._watching: dict[str, set[asyncio.Event]] = {}

    def begin(self, row: RunRow) -> RunStream | None:
        """A run is taken up; None where nobody can follow it."""
        if row.address.account not in self.accounts:
            return None
        stream = self._streams[row.run_id] = RunStream(row.run_id)
        self._ended.pop(row.run_id, None)
        self.note(row.conversation)
        return stream

    def end(self, row: RunRow) -> None:
        """It is not worked on any more, and its row says why."""
        stream = self._streams.pop(row.run_id, None)
        if stream is not None:
            self._ended[row.run_id] = stream
            stream.enter("ended")
            self.note(row.conversation)

    def of(self, run_id: str) -> RunStream | None:
        """The stream of a run that works here, or waits for a person, or did so lately."""
        return self._streams.get(run_id) or self._ended.get(run_id)

    def note(self, conversation: str) -> None:
        """Something may have changed there: a run opened, refused, begun, ended."""
        for event in self._watching.get(conversation, ()):
            event.set()

    @contextmanager
    def watch(self, conversation: str) -> Iterator[asyncio.Event]:
        """An event that is set at each change there; who waits clears it before they look."""
        event = asyncio.Event()
        self._watching.setdefault(conversation, set()).add(event)
        try:
            yield event
        finally:
            watching = self._watching[conversation]
            watching.discard(event)
            if not watching:
                del self._watching[conversation]
