"""The ports of harness/memory in memory: a store, and the memories of every owner, never off."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.memory.config import MemorySettings
from harness.memory.merge import TOOLS_CONFIDENCE, remembered
from harness.memory.model import Memory, Proposed
from harness.memory.store import Recalled, StoredMemory

if TYPE_CHECKING:
    from harness.context import RunContext
    from harness.memory.model import Category, Fact
    from harness.ports import Clock


@dataclass(slots=True)
class InMemoryStore:
    """MemoryStore in memory."""

    kept: dict[str, Memory] = field(default_factory=dict)
    own: dict[tuple[str, str], Memory] = field(default_factory=dict)
    """Those that agents keep for themselves, by owner and agent."""

    async def load(self, owner: str, agent: str = "") -> Memory:
        return (self.own.get((owner, agent)) if agent else self.kept.get(owner)) or Memory()

    async def save(self, owner: str, memory: Memory, agent: str = "") -> None:
        if agent:
            self.own[owner, agent] = memory
        else:
            self.kept[owner] = memory

    async def replace(self, owner: str, known: Memory, memory: Memory, agent: str = "") -> bool:
        if await self.load(owner, agent) != known:
            return False
        if memory.is_empty:
            await self.delete(owner, agent)
        else:
            await self.save(owner, memory, agent)
        return True

    async def delete(self, owner: str, agent: str = "") -> bool:
        return (self.own.pop((owner, agent), None) if agent else self.kept.pop(owner, None)) is not None

    async def owners(self, owner: str | None = None) -> list[StoredMemory]:
        every = {(each, ""): memory for each, memory in self.kept.items()} | self.own
        return [
            StoredMemory(owner=of, agent=agent, size=len(memory.to_json().encode()), updated_at=memory.last_updated)
            for (of, agent), memory in sorted(every.items())
            if owner in (None, of)
        ]


@dataclass(slots=True)
class InMemoryMemories:
    """changed: by owner, what `Recalled` counts; a test that plays a person's command counts it up. own: agents that
    keep a memory for themselves."""

    clock: Clock
    settings: MemorySettings = field(default_factory=MemorySettings)
    kept: InMemoryStore = field(default_factory=InMemoryStore)
    changed: dict[str, int] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)
    _made: dict[str, Fact] = field(default_factory=dict)

    async def recalled(self, ctx: RunContext) -> Recalled:
        agent = self._agent(ctx)
        known = await self.kept.load(ctx.owner, agent)
        return Recalled(memory=known, changed=self.changed.get(ctx.owner, 0), agent=agent)

    async def remember(self, ctx: RunContext, call: str, content: str, category: Category) -> Fact:
        made = self._made.get(f"{ctx.run_id}/{call}")
        if made is not None:
            return made
        now = self.clock.now()
        proposed = Proposed(
            content=content,
            category=category,
            confidence=TOOLS_CONFIDENCE,
            at=now,
            source=ctx.run_id,
            said_by=ctx.speaker.id,
        )
        memory, fact = remembered(await self.kept.load(ctx.owner, self._agent(ctx)), proposed, self.settings, now)
        await self.kept.save(ctx.owner, memory, self._agent(ctx))
        self._made[f"{ctx.run_id}/{call}"] = fact
        return fact

    def _agent(self, ctx: RunContext) -> str:
        return ctx.agent if ctx.agent in self.own else ""

    def forget(self, owner: str) -> None:
        """As a person's command does it."""
        self.kept.kept[owner] = Memory()
        self.changed[owner] = self.changed.get(owner, 0) + 1
