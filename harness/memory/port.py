"""What is asked of whoever keeps memories, each port with its in-memory twin below.

`MemoryStore` keeps them (files.py, bot/store/memories.py); everything that changes one goes through bot's MemoryBook,
which is the `Memories` of the harness: what a run is told, and what its tools do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from harness.memory.model import Memory

if TYPE_CHECKING:
    from datetime import datetime

    from harness.context import RunContext
    from harness.memory.config import MemorySettings
    from harness.memory.model import Category, Fact


class MemoryUnavailable(Exception):
    """The memories cannot be read or written now; nothing was changed."""


class NotKept(Exception):
    """What was to be remembered is not. Its text says why, in a sentence for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMemory:
    """That there is one, without what is in it. size: bytes of its JSON."""

    owner: str
    size: int
    updated_at: datetime | None


class MemoryStore(Protocol):
    """Keeps one memory per owner; whoever writes sees to it that one owner's are written one at a time. All raise
    MemoryUnavailable."""

    async def load(self, owner: str) -> Memory:
        """Empty where there is none. A broken one is set aside and told in the log; then it is the last good copy."""

    async def save(self, owner: str, memory: Memory) -> None:
        """All of it or nothing; what it replaces stays as the last good copy."""

    async def delete(self, owner: str) -> bool:
        """It, its last good copy and what was set aside. False where there was nothing."""

    async def owners(self) -> list[StoredMemory]:
        """Of whom there is one, by owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What a run may know. changed: counts what persons themselves changed (forgot, edited, turned off): a thread that
    was told with another count is told anew at its next turn."""

    memory: Memory
    changed: int = 0


class Memories(Protocol):
    """The memory of the run's owner, for the harness. Where memory is off for that owner nothing is told or kept."""

    async def recalled(self, ctx: RunContext) -> Recalled:
        """What is remembered; an empty memory where it is off. Raises MemoryUnavailable."""

    async def remember(self, ctx: RunContext, call: str, content: str, category: Category) -> Fact:
        """Keep a fact in the words of the agent, as `merge.remembered` does it. call: names the tool call within the
        run; the same one again returns what it kept. Raises NotKept, MemoryUnavailable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembering:
    """What the harness needs where there is memory."""

    memories: Memories
    settings: MemorySettings


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
