"""The asyncio side of the writer: collects what waits while a batch is being committed, hands it over in one hop."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from bot.store.errors import StoreClosed, StoreUnavailable
from bot.store.writer import Job, Outcome, Writer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor

    from bot.store.bulk import Bulk
    from channels.base import Clock

log = logging.getLogger(__name__)

MAX_WAITING = 20_000
"""Jobs in the queue; further callers wait for room, so a platform's intake slows down instead of memory growing."""
MAX_BATCH = 2_000
"""Jobs of one transaction, so that nobody waits for a batch without end."""

Waiter = asyncio.Future[list[Any]]


class WriteQueue:
    """First come, first written. trouble: why the newest batch could not be written, "" when it could."""

    def __init__(self, writer: Writer, thread: Executor, clock: Clock) -> None:
        self._clock = clock
        self._began: float | None = None
        self.trouble = ""
        self._writer = writer
        self._thread = thread
        self._waiting: deque[tuple[Job, Waiter]] = deque()
        self._room = asyncio.Semaphore(MAX_WAITING)
        self._wake = asyncio.Event()
        self._closed = False
        self._task = asyncio.create_task(self._serve(), name="store-writer")

    async def submit(self, bulk: Bulk[Any, Any], rows: Sequence[Any]) -> list[Any]:
        """Write `rows`; returns when they are committed. A caller that is cancelled meanwhile does not stop it."""
        async with self._room:
            if self._closed:
                raise StoreClosed
            waiter: Waiter = asyncio.get_running_loop().create_future()
            self._waiting.append((Job(bulk, rows), waiter))
            self._wake.set()
            return await waiter

    @property
    def age(self) -> float:
        """Seconds for which the batch in hand is being written, 0 while there is none."""
        return 0.0 if self._began is None else self._clock.monotonic() - self._began

    async def close(self) -> None:
        """Write what waits, take nothing more."""
        self._closed = True
        self._wake.set()
        await self._task

    async def _serve(self) -> None:
        batch: list[tuple[Job, Waiter]] = []
        try:
            while self._waiting or not self._closed:
                await self._wake.wait()
                self._wake.clear()
                while self._waiting:
                    batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_BATCH))]
                    _resolve(batch, await self._run([job for job, _ in batch]))
        finally:
            self._closed = True
            for _, waiter in (*batch, *self._waiting):  # only when this task was cancelled or broke
                if not waiter.done():
                    waiter.set_exception(StoreClosed())

    async def _run(self, jobs: list[Job]) -> list[Outcome]:
        self._began = self._clock.monotonic()
        try:
            outcomes = await asyncio.get_running_loop().run_in_executor(self._thread, self._writer.run, jobs)
        finally:
            self._began = None
        self.trouble = next((str(each.error) for each in outcomes if isinstance(each.error, StoreUnavailable)), "")
        return outcomes


def _resolve(batch: list[tuple[Job, Waiter]], outcomes: list[Outcome]) -> None:
    for (job, waiter), outcome in zip(batch, outcomes, strict=True):
        if waiter.done():  # its caller was cancelled
            if outcome.error is not None:
                log.warning("%s failed after its caller had gone", job.bulk.name, exc_info=outcome.error)
        elif outcome.error is not None:
            waiter.set_exception(outcome.error)
        else:
            waiter.set_result(outcome.results)
