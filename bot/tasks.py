"""Background tasks with an owner: each is named and held, and its errors are logged in one place."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine

log = logging.getLogger(__name__)


class Tasks:
    """The tasks of one component. A failing task is logged with its name; the others continue."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._held: set[asyncio.Task[Any]] = set()

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name=f"{self._owner}:{name}")
        self._held.add(task)
        task.add_done_callback(self._ended)
        return task

    def __len__(self) -> int:
        return len(self._held)

    async def drain(self) -> None:
        """Wait until all have ended, including those spawned while waiting."""
        while self._held:
            await asyncio.wait(self._held)

    async def cancel(self) -> None:
        """Cancel all and wait for them, including those spawned while waiting."""
        while self._held:
            for task in self._held:
                task.cancel()
            await asyncio.wait(self._held)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._held.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("%s failed", task.get_name(), exc_info=error)
