"""Retries: a store that waits for its database, and periodic tasks that survive a failure."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeVar

from bot.store.errors import StoreError, StoreUnavailable
from bot.store.runs import RunUnknown
from harness.threads.outage import Outage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sqlalchemy import Connection

    from bot.store import Store
    from channels.base import Clock

log = logging.getLogger(__name__)
T = TypeVar("T")

LONGEST_WAIT = 30.0
AHEAD_SECONDS = 0.05
"""How long a unit that is written ahead waits for the unit that builds on it."""


class RetryingStore:
    """The store, except that a full disk or a lost server makes the caller wait (1 s, doubling to 30 s), not fail.

    The inbox is not filled through this class: its failures must reach the platform, which then delivers again.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._outage = Outage(log.error, "the store is not available", "the store is available again", clock.monotonic)
        self._ahead: dict[object, asyncio.Event] = {}
        """Units that later ones build on; each event is set when its unit is written."""

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def epoch(self) -> int:
        return self._store.epoch

    @property
    def trouble(self) -> str:
        """Why the newest write was not accepted, else why something still waits; "" while nothing does."""
        return self._store.trouble or self._outage.trouble

    @property
    def writer_age(self) -> float:
        """See Store.writer_age."""
        return self._store.writer_age

    async def write(self, unit: Callable[[Connection], T]) -> T:
        return await self.until_available(lambda: self._store.write(unit))

    async def write_ahead(self, unit: Callable[[Connection], T]) -> T:
        """`write`, for a unit that need not be awaited before the next one builds on it: it is committed together with
        that unit, or alone after a moment, but never after it."""
        self._ahead[unit] = written = asyncio.Event()
        try:
            return await self.until_available(lambda: self._store.write(unit, within=AHEAD_SECONDS), ahead=True)
        finally:
            del self._ahead[unit]
            written.set()

    async def tried(self, unit: Callable[[Connection], object]) -> bool:
        """Run `unit` once; return whether it was written. For optional writes that no caller depends on."""
        try:
            await self._store.write(unit)
        except StoreError:
            return False
        return True

    async def read(self, query: Callable[[Connection], T]) -> T:
        return await self.until_available(lambda: self._store.read(query))

    async def processes(self) -> tuple[str, list[str]] | None:
        """See Store.processes."""
        return await self.until_available(self._store.processes)

    def lease_valid(self) -> bool:
        """See Store.lease_valid."""
        return self._store.lease_valid()

    async def may_act(self) -> None:
        """See Store.may_act."""
        await self._store.may_act()

    def check_run(self, tx: Connection, run_id: str) -> None:
        """See Store.check_run."""
        self._store.check_run(tx, run_id)

    async def may_act_for(self, run_id: str, since: float) -> None:
        """See Store.may_act_for."""
        await self.until_available(lambda: self._store.may_act_for(run_id, since))

    async def scrub(self) -> bool:
        """See Store.scrub."""
        return await self.until_available(self._store.scrub)

    async def until_available(self, attempt: Callable[[], Awaitable[T]], *, ahead: bool = False) -> T:
        """Return what `attempt` returns; retry as long as it raises StoreUnavailable.

        ahead: other attempts wait for this one before they retry.
        """
        delay = 1.0
        try:
            while True:
                try:
                    result = await attempt()
                except StoreUnavailable as error:
                    self._outage.failed(attempt, error)
                except RunUnknown:
                    if not self._ahead:  # else an outage hit only the write that opens the run
                        raise
                else:
                    self._outage.succeeded(attempt)
                    return result
                await self._clock.sleep(delay)
                delay = min(delay * 2, LONGEST_WAIT)
                if not ahead:
                    for written in [*self._ahead.values()]:
                        await written.wait()
        finally:
            self._outage.left(attempt)


async def every(seconds: float, clock: Clock, what: str, work: Callable[[], Awaitable[object]]) -> None:
    """Repeat `work`, pausing `seconds` in between, until cancelled; failures are logged and the work is retried.

    what: the name of the work in the log.
    """
    while True:
        await attempted(what, work)
        await clock.sleep(seconds)


async def attempted(what: str, work: Callable[[], Awaitable[object]]) -> bool:
    """Do the work and return whether it succeeded. Every error is logged, none is raised."""
    try:
        await work()
    except (StoreError, OSError) as error:
        log.warning("%s: failed, will be tried again: %s", what, error)
        return False
    except Exception:
        log.exception("%s: failed, will be tried again", what)
        return False
    return True
