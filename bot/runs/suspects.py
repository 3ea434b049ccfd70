"""Suspects: runs that were at work at two deaths of the process are tried one at a time, so that one which kills it is
found and given up, and a kill from outside is not blamed on it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from bot.store import runs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from bot.store.retrying import RetryingStore
    from bot.store.rows import RunRow
    from channels.base import Clock

log = logging.getLogger(__name__)

UNSUSPECTED = 1
"""Deaths after which a run still goes on at once: a single one is what any process may meet with."""
MOST = 3
"""Deaths against a run that make it a dead letter."""
QUIET_SECONDS = 60.0
"""That a process has to live before it tries a suspect, for each death beyond the free one; and after which one that is
tried no longer keeps the next one waiting."""


class Suspects:
    """Holds suspected runs back. Made when the process begins to live, from which its quiet time counts."""

    def __init__(self, store: RetryingStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._began = clock.monotonic()
        self._trial = asyncio.Lock()

    async def is_poison(self, row: RunRow) -> bool:
        """Whether a run is to be given up, as far as is known now: others of the same deaths may have lived since it
        was asked last."""
        if len(row.deaths) < MOST:
            return False
        return await self._store.read(lambda tx: runs.deaths_against(tx, row)) >= MOST

    @contextlib.asynccontextmanager
    async def turn(self, row: RunRow, held: Callable[[], None]) -> AsyncIterator[None]:
        """Surrounds the work on a run: at once, unless it is suspected; then `held` is called and it waits. One that is
        poison need not wait."""
        if len(row.deaths) <= UNSUSPECTED or await self.is_poison(row):
            yield
            return
        held()
        quiet = QUIET_SECONDS * (len(row.deaths) - UNSUSPECTED)
        log.warning("run %s was at work at %d deaths: it is tried after %.0f s", row.run_id, len(row.deaths), quiet)
        await self._clock.sleep(self._began + quiet - self._clock.monotonic())
        await self._trial.acquire()
        over = asyncio.create_task(self._clock.sleep(QUIET_SECONDS), name=f"trial:{row.run_id}")
        over.add_done_callback(lambda _: self._trial.release())
        try:
            yield
        finally:
            over.cancel()
