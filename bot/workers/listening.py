"""Listener: the one connection of a gateway on which PostgreSQL notifies it of writes. It carries only ids.

A lost notification costs a few seconds: each waiter also polls.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from bot.store.worker_runs import CHANNEL, SCHEDULES
from harness.threads.outage import Outage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from channels.base import Clock

log = logging.getLogger(__name__)
AGAIN_SECONDS = 1.0


class Listener:
    """The gateway's LISTEN connection. url: in libpq's form. due: called when a worker created a reminder."""

    def __init__(self, url: str, clock: Clock, due: Callable[[], None]) -> None:
        self._url = url
        self._clock = clock
        self._due = due
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._outage = Outage(log.warning, "worker notifications are interrupted", "worker notifications arrive again")

    @contextmanager
    def listening(self, run_id: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set whenever something was written about the run."""
        word = asyncio.Event()
        self._waiting[run_id].add(word)
        try:
            yield word
        finally:
            self._waiting[run_id].discard(word)
            if not self._waiting[run_id]:
                del self._waiting[run_id]

    async def serve(self) -> None:
        """Listen until cancelled; a lost connection is replaced, and then all waiters check what they missed."""
        while True:
            try:
                await self._serve()
            except psycopg.Error as error:
                self._outage.failed(self, error)
            await self._clock.sleep(AGAIN_SECONDS)

    async def _serve(self) -> None:
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            self._outage.succeeded(self)
            self._due()
            for run_id in list(self._waiting):
                self._wake(run_id)
            async for notice in connection.notifies():
                if notice.payload == SCHEDULES:
                    self._due()
                else:
                    self._wake(notice.payload)

    def _wake(self, run_id: str) -> None:
        for word in self._waiting.get(run_id, ()):
            word.set()
