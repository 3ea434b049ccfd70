"""The parts of the memory put together, for the composition root."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.memory.feeding import Feeding
from bot.memory.keeping import make_book
from bot.memory.service import MemoryService
from bot.memory.tool import MemoryTool
from bot.runs.endings import NO_AFTERMATH
from bot.store import memory_owners, memory_queue
from bot.store.retrying import every
from harness.memory.port import Remembering

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bot.agents.profiles import AgentChoices
    from bot.runs.endings import Aftermath, Ending
    from bot.settings import Settings
    from bot.store.retrying import PatientStore
    from bot.store.rows import RunRow
    from bot.tasks import Tasks
    from bot.usage.spending import Spending
    from channels.base import Clock
    from harness.ports import Harness

log = logging.getLogger(__name__)

TIDY_SECONDS = 3600.0
KEPT = timedelta(days=7)
"""Of what waits to be learnt, and of the numbers of lists."""


class MemoryParts:
    """book: for commands and the agent. harness: as soon as it is built; it learns."""

    def __init__(
        self,
        settings: Settings,
        store: PatientStore,
        clock: Clock,
        spending: Spending,
        tasks: Tasks,
        harness: Callable[[], Awaitable[Harness]],
        agents: AgentChoices,
    ) -> None:
        self._settings = settings.memory
        self._store = store
        self._clock = clock
        self.book = make_book(settings, store)
        self.tool = MemoryTool(self.book)
        self.service = MemoryService(
            self.book,
            store=store,
            harness=harness,
            budgets=spending.budgets,
            meter=spending.meter,
            clock=clock,
            tasks=tasks,
            quiet=settings.memory.debounce_seconds,
        )
        self._feeding = Feeding(settings.memory, clock, self.service.queued, agents.remember)

    @property
    def remembering(self) -> Remembering | None:
        """What the agent needs; None where nothing is remembered."""
        return Remembering(memories=self.book, settings=self._settings) if self._settings.enabled else None

    def after(self, row: RunRow, ending: Ending, text: str) -> Aftermath:
        """See Feeding."""
        return self._feeding.after(row, ending, text) if self._settings.enabled else NO_AFTERMATH

    async def tidy(self) -> None:
        """Once an hour, for ever: forget what nothing needs any more."""
        await every(TIDY_SECONDS, self._clock, "removing old memories", self._prune)

    async def _prune(self) -> None:
        before = self._clock.now() - KEPT
        await self._store.write(lambda tx: memory_queue.prune(tx, before))
        await self._store.write(lambda tx: memory_owners.prune_lists(tx, before))
        if gone := await self.book.prune():
            log.info("%d memories that were not used for long are forgotten", gone)
