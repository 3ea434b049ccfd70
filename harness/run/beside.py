"""What the harness does beside runs: threads settled, rewound, made short, titles, memories; HarnessRunner's base."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from harness.middleware.report import usage_event
from harness.ports import Head
from harness.graph.messages import usage_event
from harness.threads import operations as threads
from harness.threads.checkpoints import FinishedTurns, thread_config

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langgraph.types import StateSnapshot

    from harness.agents.maker import Graph
    from harness.agents.parts import Parts
    from harness.agents.pool import Agents
    from harness.context import HistoryEntry, Titled
    from harness.events import Usage
    from harness.memory.changes import Updated
    from harness.memory.exchange import Exchange
    from harness.memory.model import Memory
    from harness.threads.checkpoints import Checkpoints


class BesideRuns:
    """What changes a thread may not happen while a run of it works; that is the caller's duty."""

    def __init__(self, agents: Agents, checkpoints: Checkpoints, parts: Parts) -> None:
        self._agents = agents
        self.checkpoints = checkpoints
        self._parts = parts
        self._finished = FinishedTurns(checkpoints)
        self._at_work = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Its models and tools are in use."""
        self._at_work += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._at_work -= 1
            if not self._at_work:
                self._idle.set()

    async def settle(self, thread_id: str) -> None:
        """See the port."""
        await threads.settle(self._any_graph(), self._parts.effects, thread_id)

    async def rewind(self, thread_id: str, checkpoint_id: str | None) -> None:
        """See the port."""
        if checkpoint_id is None:
            await self.forget(thread_id)
        else:
            await threads.rewind(self._any_graph(), self._parts.effects, thread_id, checkpoint_id)

    async def compact(self, thread_id: str, model: str) -> Usage | None:
        """See the port. When the model gives no summary, the old messages are dropped with a note."""
        agent = self._agents.get(model)
        with self._working():
            await threads.settle(agent.graph, self._parts.effects, thread_id)
            compacted = await agent.summarization.compacted(await self._messages(thread_id), hard=True)
        if compacted is None:
            return None
        await threads.replace_history(agent.graph, thread_id, compacted.messages)
        if compacted.usage is None:
            return None
        return usage_event(agent.settings.name, compacted.usage)(run_id="", seq=0)

    async def history(self, thread_id: str) -> list[HistoryEntry]:
        """See the port."""
        return threads.entries(await self._messages(thread_id))

    async def forget(self, thread_id: str) -> None:
        """See the port."""
        self._finished.forget(thread_id)
        await self.checkpoints.forget(thread_id)

    async def scrub(self) -> None:
        """See the port."""
        await self.checkpoints.scrub()

    async def title(self, model: str, said: str, answered: str) -> Titled | None:
        """See the port."""
        with self._working():
            return await self._agents.title(model, said, answered)

    async def remember(self, memory: Memory, exchanges: Sequence[Exchange]) -> Updated | None:
        """See the port."""
        with self._working():
            return await self._agents.remember(memory, exchanges)

    async def head(self, thread_id: str) -> Head:
        """The thread's newest checkpoint."""
        saved = await self.checkpoints.newest(thread_id)
        return Head(saved.checkpoint["id"], saved) if saved is not None else Head()

    async def _messages(self, thread_id: str) -> list[Any]:
        state: StateSnapshot = await self._any_graph().aget_state(thread_config(thread_id))
        messages: list[Any] = state.values.get("messages", [])
        return messages

    def _any_graph(self) -> Graph:
        """All graphs have the same nodes and channels, so any of them can read and write any thread."""
        return self._agents.default().graph
