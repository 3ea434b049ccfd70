"""An agent whose model learns every word that it hears: whatever could leak, leaks; and what it was told of whom."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.memory.model import Changes, Proposed, Updated
from tests.bot.scripted_harness import ScriptedHarness

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from harness.context import RunContext, RunInput
    from harness.events import AnyRunEvent
    from harness.memory.model import Exchange, Memory
    from harness.memory.store import Memories
    from harness.ports import Head


@dataclass
class Learner(ScriptedHarness):
    """failing: updates that give nothing. held: updates wait for it; waiting: one does. defect: what an update raises.
    memories: told to each run. known, prompts: (owner, the memory, or all that a run was told),
    in their order."""

    failing: int = 0
    held: asyncio.Event | None = None
    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    defect: Exception | None = None
    trouble: str = ""
    memories: Callable[[], Memories] | None = None
    prompts: list[tuple[str, str]] = field(default_factory=list)
    known: list[tuple[str, str]] = field(default_factory=list)

    async def remember(self, memory: Memory, exchanges: Sequence[Exchange]) -> Updated | None:
        self.remembered.append(list(exchanges))
        if self.held is not None:
            self.waiting.set()
            await self.held.wait()
        if self.defect is not None:
            raise self.defect
        if self.failing:
            self.failing -= 1
            return None
        added = [self.fact(turn, said.text) for turn in exchanges for said in turn.heard]
        changes = Changes() if self.trouble else Changes(added=tuple(added))
        return Updated(
            memory=memory, changes=changes, model="main", input_tokens=100, output_tokens=10, trouble=self.trouble
        )

    def fact(self, turn: Exchange, text: str) -> Proposed:
        return Proposed(
            content=text,
            category="context",
            confidence=0.9,
            at=turn.at,
            source=turn.run_id,
            said_by=turn.speaker,
            tainted=turn.tainted,
        )

    async def run(
        self,
        ctx: RunContext,
        run_input: RunInput,
        *,
        attempt: int = 1,
        next_seq: int = 1,
        head: Head | None = None,
    ) -> AsyncGenerator[AnyRunEvent, None]:
        told = (await self.memories().recalled(ctx)).memory.to_json() if self.memories is not None else ""
        self.known.append((ctx.owner, told))
        self.prompts.append((ctx.owner, "\n".join([told, run_input.text, run_input.quote, *run_input.background])))
        async with aclosing(super().run(ctx, run_input, attempt=attempt, next_seq=next_seq)) as events:
            async for event in events:
                yield event
