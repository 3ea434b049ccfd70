"""Takes envelopes in the order in which they came, commits them in batches, and says which are safe to be acked.

The SDK handles envelopes at the same time, each in its own task; without this line messages could change places.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from channels.errors import NotCommitted
from channels.publishing import commit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from channels.base import ChannelPorts, Health
    from channels.slack.directory import Directory
    from channels.slack.inbound import Found, Kind, Reader

MOST_WAITING = 2000
"""Envelopes; what comes beyond is not acked, so that Slack sends it again."""
BATCH = 100


@dataclass(frozen=True, slots=True)
class _Waiting:
    kind: Kind
    payload: Mapping[str, Any]
    committed: asyncio.Future[bool]


class Intake:
    """Of one account. see: told of everything that was committed."""

    def __init__(
        self,
        reader: Reader,
        directory: Directory,
        ports: ChannelPorts,
        health: Health,
        see: Callable[[Found], None],
    ) -> None:
        self._reader = reader
        self._directory = directory
        self._ports = ports
        self._health = health
        self._see = see
        self._waiting: deque[_Waiting] = deque()
        self._more = asyncio.Event()
        self._closed = False

    async def take(self, kind: Kind, payload: Mapping[str, Any]) -> bool:
        """Whether it is committed (or says nothing to us); else it has to come again."""
        if self._closed:
            return False
        if len(self._waiting) >= MOST_WAITING:
            self._ports.log.error("%s: too many events wait to be stored; Slack will repeat them", self._reader.account)
            return False
        waiting = _Waiting(kind, payload, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._more.set()
        return await waiting.committed

    async def run(self) -> None:
        """Commit what comes, until cancelled; what is not committed by then stays unacked."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
                committed = False
                try:
                    committed = await self._commit(batch)
                finally:
                    _answer(batch, committed)

    def close(self) -> None:
        """Take nothing any more."""
        self._closed = True
        _answer(self._waiting, False)
        self._waiting.clear()

    async def publish(self, events: Sequence[Found]) -> bool:
        """Hand events to the gateway; whether they are committed."""
        if not events:
            return True
        try:
            await commit(events, self._ports, self._health)
        except NotCommitted:
            self._ports.log.exception("%s: events were not stored", self._reader.account)
            return False
        for event in events:
            self._see(event)
        return True

    async def _commit(self, batch: Sequence[_Waiting]) -> bool:
        await self._directory.learn([waiting.payload for waiting in batch])
        known, now = self._directory.known, self._ports.clock.now()
        read = [self._reader.read(waiting.kind, waiting.payload, known, now) for waiting in batch]
        return await self.publish([event for event in read if event is not None])


def _answer(batch: Iterable[_Waiting], committed: bool) -> None:
    for waiting in batch:
        if not waiting.committed.done():
            waiting.committed.set_result(committed)
