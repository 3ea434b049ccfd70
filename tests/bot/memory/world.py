"""A book on a real store and memories that outlive it, for the tests of this folder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.memory.keeper import MemoryKeeper
from bot.store import memories
from bot.store.memories import QueuedTurn
from bot.store.sql import to_json
from harness.memory.config import MemorySettings
from harness.memory.model import EXCHANGE, Changes, Exchange, Proposed, Said
from tests.harness.memory.in_memory import InMemoryStore

if TYPE_CHECKING:
    from datetime import datetime

    from bot.store import Store
    from tests.clock import VirtualClock

ANN, BOB, GROUP = "telegram:1", "telegram:2", "telegram:-5"
QUIET = timedelta(seconds=30)


@dataclass
class World:
    """queued: ids of turns, in their order."""

    store: Store
    clock: VirtualClock
    kept: InMemoryStore = field(default_factory=InMemoryStore)
    settings: MemorySettings = field(default_factory=MemorySettings)
    count: int = 0
    own: frozenset[str] = frozenset({"support"})
    """Agents that keep a memory for themselves."""

    @property
    def book(self) -> MemoryKeeper:
        """A new one each time, as after a restart."""
        return MemoryKeeper(self.kept, self.store, self.settings, lambda agent: agent if agent in self.own else "")

    async def queue(
        self, text: str, owner: str = ANN, speaker: str = ANN, thread: str = "t1", agent: str = ""
    ) -> QueuedTurn:
        self.count += 1
        now = self.clock.now()
        exchange = Exchange(
            owner=owner,
            thread_id=thread,
            run_id=f"run{self.count}",
            speaker=speaker,
            is_group=owner == GROUP,
            locale="en",
            tainted=False,
            outcome="success",
            at=now,
            said=(Said(role="person", text=text, name="Ann"),),
        )
        turn = QueuedTurn(
            run_id=exchange.run_id,
            owner=owner,
            thread_id=thread,
            speaker=speaker,
            conversation=owner,
            exchange=to_json(EXCHANGE, exchange),
            queued_at=now,
            due_at=now + QUIET,
            agent=agent or None,
        )
        await self.store.write(lambda tx: memories.queue_turn(tx, turn, QUIET))
        stored = await self.waiting(owner)
        return next((each for each in stored if each.run_id == turn.run_id), replace(turn, id=0))

    async def waiting(self, owner: str = ANN) -> list[QueuedTurn]:
        """The turns of an owner that are due first."""
        return await self.store.read(lambda tx: memories.first_turns(tx, owner))

    def fact(self, text: str, said_by: str = ANN, at: datetime | None = None) -> Proposed:
        return Proposed(
            content=text, category="context", confidence=0.9, at=at or self.clock.now(), source="run", said_by=said_by
        )

    async def learn(self, *texts: str, owner: str = ANN, said_by: str = ANN, agent: str = "") -> None:
        """These are remembered, each as a fact."""
        turn = await self.queue("said", owner, said_by, agent=agent)
        base = await self.book.show(owner, agent)
        changes = Changes(added=tuple(self.fact(text, said_by) for text in texts))
        assert await self.book.learn(owner, [turn.id], base, changes, agent)

    async def facts(self, owner: str = ANN, agent: str = "") -> list[str]:
        return [fact.content for fact in (await self.book.show(owner, agent)).facts]
