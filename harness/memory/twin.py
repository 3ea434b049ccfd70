"""`Memories` in memory: one of every owner, never off. For tests, and for what runs without bot/."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.memory.changes import Proposed
from harness.memory.config import MemorySettings
from harness.memory.merge import TOOLS_CONFIDENCE, remembered
from harness.memory.model import Memory
from harness.memory.port import InMemoryStore, Recalled

if TYPE_CHECKING:
    from harness.context import RunContext
    from harness.memory.model import Category, Fact
    from harness.ports import Clock


@dataclass(slots=True)
class InMemoryMemories:
    """changed: by owner, what `Recalled` counts; whoever plays a person's command counts it up."""

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
