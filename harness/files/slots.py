"""FairSlots: limits how many tasks of a kind run concurrently in a process, and decides whose turn it is."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class FairSlots:
    """Limits holders to `most` at once, of which one speaker has at most `share`, by default half: so there is room for
    others, however long the work takes.

    A free slot goes to the speaker that holds the fewest; among equals to the one not served for the longest time.
    Waiting costs nothing, so any number may wait.
    """

    def __init__(self, most: int, share: int | None = None) -> None:
        self.most = self._free = most
        self._share = (most + 1) // 2 if share is None else share
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._turns = itertools.count(1)
        self._served: dict[str, int] = {}
        """The last turn of each speaker that holds or waits for a slot."""

    def resize(self, most: int, share: int | None = None) -> None:
        """Change the limits. Slots already taken stay taken, even above a lowered limit."""
        self._free += most - self.most
        self.most = most
        self._share = (most + 1) // 2 if share is None else share
        self._serve()

    @property
    def free(self) -> bool:
        """Whether a slot is available without waiting, within the share."""
        return self._free > 0 and not self._waiting

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    @property
    def held(self) -> int:
        return self._held.total()

    @asynccontextmanager
    async def slot(self, speaker: str) -> AsyncIterator[None]:
        """Hold a slot while the block runs."""
        await self._acquire(speaker)
        try:
            yield
        finally:
            self._release(speaker)

    async def _acquire(self, speaker: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(speaker, deque()).append(turn)
        self._serve()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(speaker, turn)
            else:  # its turn came at the same moment
                self._release(speaker)
            raise

    def _release(self, speaker: str) -> None:
        self._free += 1
        self._held[speaker] -= 1
        if not self._held[speaker]:
            del self._held[speaker]
            self._forget(speaker)
        self._serve()

    def _serve(self) -> None:
        while self._free > 0 and (speaker := self._next()) is not None:
            turn = self._waiting[speaker][0]
            self._leave(speaker, turn)
            if turn.cancelled():  # its waiter has not noticed yet
                continue
            self._free -= 1
            self._held[speaker] += 1
            self._served[speaker] = next(self._turns)
            turn.set_result(None)

    def _next(self) -> str | None:
        able = [speaker for speaker in self._waiting if self._held[speaker] < self._share]
        return min(able, key=lambda speaker: (self._held[speaker], self._served.get(speaker, 0)), default=None)

    def _leave(self, speaker: str, turn: asyncio.Future[None]) -> None:
        line = self._waiting.get(speaker, deque())
        if turn in line:
            line.remove(turn)
            if not line:
                del self._waiting[speaker]
                self._forget(speaker)

    def _forget(self, speaker: str) -> None:
        if speaker not in self._held and speaker not in self._waiting:
            self._served.pop(speaker, None)
