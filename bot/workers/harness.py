"""WorkersHarness: the harness of a gateway whose runs are executed by workers.

Methods that query a model are sent to a worker: `run`, and as calls `title`, `remember` and `compact`. All others are
served by the harness of this process, on the same checkpoints, once no worker has the thread any more.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from bot.workers.calls import COMPACT, REMEMBER, TITLE, CallFailed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from bot.workers.dispatch import Dispatch
    from harness.context import (
        HistoryEntry,
        Removal,
        ResearchFiles,
        ResearchView,
        RunContext,
        RunInput,
        ThreadView,
        Titled,
        Unfinished,
    )
    from harness.events import AnyRunEvent, Usage
    from harness.memory.model import Exchange, Memory, Updated
    from harness.ports import Harness, Head
    from harness.research.record import Research


log = logging.getLogger(__name__)


class WorkersHarness:
    """harness.ports.Harness: model queries are served by workers, all else by the harness of this process."""

    def __init__(self, local: Harness, dispatch: Dispatch) -> None:
        self.local = local
        self._dispatch = dispatch

    def run(
        self,
        ctx: RunContext,
        run_input: RunInput,
        *,
        attempt: int = 1,
        next_seq: int = 1,
        head: Head | None = None,
    ) -> AsyncGenerator[AnyRunEvent, None]:
        """Run on a worker, which reads the input and the thread itself."""
        return self._dispatch.run(ctx, attempt, next_seq)

    def abandon(self, run_id: str) -> None:
        # Work that a worker keeps open while a person decides ends there by its own time limit.
        self.local.abandon(run_id)

    async def settle(self, thread_id: str, unfinished: Unfinished | None = None) -> None:
        await self._dispatch.quiet(thread_id)
        await self.local.settle(thread_id, unfinished)

    async def rewind(self, thread_id: str, checkpoint_id: str | None) -> None:
        await self._dispatch.quiet(thread_id)
        await self.local.rewind(thread_id, checkpoint_id)

    async def compact(self, thread_id: str, model: str) -> Usage | None:
        await self._dispatch.quiet(thread_id)
        return await self._dispatch.calls.ask(COMPACT, (thread_id, model), self.local, thread_id)

    async def history(self, thread_id: str) -> list[HistoryEntry]:
        return await self.local.history(thread_id)

    async def views(
        self, thread_id: str, *, at: str | None = None, before: str | None = None, limit: int = 1
    ) -> list[ThreadView]:
        return await self.local.views(thread_id, at=at, before=before, limit=limit)

    async def seed(self, thread_id: str, said: Sequence[HistoryEntry]) -> None:
        await self.local.seed(thread_id, said)

    async def change(self, thread_id: str, changes: Sequence[HistoryEntry | Removal], *, at: str | None = None) -> None:
        await self._dispatch.quiet(thread_id)
        await self.local.change(thread_id, changes, at=at)

    async def fork(
        self, thread_id: str, fork_id: str, *, before: str = "", through: str = "", checkpoint_id: str | None = None
    ) -> bool:
        return await self.local.fork(thread_id, fork_id, before=before, through=through, checkpoint_id=checkpoint_id)

    async def research(self, thread_id: str) -> ResearchView | None:
        return await self.local.research(thread_id)

    async def research_files(self, thread_id: str) -> ResearchFiles | None:
        return await self.local.research_files(thread_id)

    async def research_record(self, thread_id: str) -> Research | None:
        return await self.local.research_record(thread_id)

    async def forget(self, thread_id: str) -> None:
        await self._dispatch.quiet(thread_id)
        await self.local.forget(thread_id)
        await self._dispatch.forget(thread_id)

    async def condense(self, thread_id: str, keep: Sequence[str], *, drop: bool) -> None:
        if drop:
            await self._dispatch.quiet(thread_id)
        await self.local.condense(thread_id, keep, drop=drop)

    async def scrub(self) -> None:
        await self.local.scrub()

    async def title(self, model: str, said: str, answered: str) -> Titled | None:
        try:
            return await self._dispatch.calls.ask(TITLE, (model, said, answered), self.local)
        except CallFailed as error:
            log.warning("thread not titled: %s", error)
            return None

    async def remember(self, memory: Memory, exchanges: Sequence[Exchange]) -> Updated | None:
        try:
            return await self._dispatch.calls.ask(REMEMBER, (memory, tuple(exchanges)), self.local)
        except CallFailed as error:
            log.warning("memory not updated: %s", error)
            return None

    async def head(self, thread_id: str) -> Head:
        return await self.local.head(thread_id)

    async def retire(self) -> None:
        await self.local.retire()

    async def close(self) -> None:
        await self.local.close()
