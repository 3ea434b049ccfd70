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

    async def load(self, owner: str) -> Memory:
        return self.kept.get(owner, Memory())

    async def save(self, owner: str, memory: Memory) -> None:
        self.kept[owner] = memory

    async def delete(self, owner: str) -> bool:
        return self.kept.pop(owner, None) is not None

    async def owners(self) -> list[StoredMemory]:
        return [
            StoredMemory(owner=owner, size=len(memory.to_json().encode()), updated_at=memory.last_updated)
            for owner, memory in sorted(self.kept.items())
        ]


@dataclass(slots=True)
class InMemoryMemories:
    """changed: by owner, what `Recalled` counts; a test that plays a person's command counts it up."""

    clock: Clock
    settings: MemorySettings = field(default_factory=MemorySettings)
    kept: InMemoryStore = field(default_factory=InMemoryStore)
    changed: dict[str, int] = field(default_factory=dict)
    _made: dict[str, Fact] = field(default_factory=dict)

    async def recalled(self, ctx: RunContext) -> Recalled:
        return Recalled(memory=await self.kept.load(ctx.owner), changed=self.changed.get(ctx.owner, 0))

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
        memory, fact = remembered(await self.kept.load(ctx.owner), proposed, self.settings, now)
        await self.kept.save(ctx.owner, memory)
        self._made[f"{ctx.run_id}/{call}"] = fact
        return fact

    def forget(self, owner: str) -> None:
        """As a person's command does it."""
        self.kept.kept[owner] = Memory()
        self.changed[owner] = self.changed.get(owner, 0) + 1
