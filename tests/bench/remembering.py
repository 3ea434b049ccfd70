"""Scenario `memory`: the cost of updating a full memory, and of including it in each thread and turn.

The agent's own code runs in this process, with files on disk and the simulated model in a separate process.
Tokens are counted as the agent counts them (harness/memory/telling.py).
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.clock import SystemClock
from harness.agents.parts import Parts
from harness.config import ModelSettings
from harness.context import RunContext, RunInput, Speaker
from harness.memory.config import MemorySettings
from harness.memory.merge import merged
from harness.memory.model import SUMMARIES, Changes, Exchange, Fact, Memory, Proposed, Said, Summary, with_summaries
from harness.memory.store import FileMemoryStore, Recalled, Remembering
from harness.memory.telling import memory_block
from harness.ports import MemoryEffectLog, MemoryRunLedger
from harness.run.runner import make_harness
from harness.text.plain import tokens
from tests.bench.figures import Figure, Outcome
from tests.simulators.model.client import ModelSimulator
from tests.simulators.model.scripts import Say
from tests.simulators.process import SimulatorProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from harness.memory.model import Category
    from harness.memory.store import MemoryStore
    from harness.run.runner import HarnessRunner
    from tests.simulators.model.records import Record

OWNER = "telegram:1"
FACTS, TURNS, OFFERED = 100, 4, 10_000
LIKES = "prefers short answers about the garden project in Lisbon, with sources"
SUMMARY = "Works as a landscape architect, plans a public garden with two colleagues and writes about it. " * 4
ANSWER: dict[str, Any] = {
    "summaries": [{"name": "topOfMind", "text": SUMMARY}],
    "add": [
        {
            "content": f"Wants the plan number {number} by spring",
            "category": "goal",
            "confidence": 0.9,
            "turn": 1,
            "evidence": "we plan the garden",
            "valid_until": None,
        }
        for number in range(3)
    ],
    "correct": [],
    "confirm": [{"id": "f000", "turn": 1}],
    "remove": [],
}


@dataclass
class Kept:
    """The same memory for everyone, read from its file at each turn, as by the gateway."""

    store: MemoryStore

    async def recalled(self, ctx: RunContext) -> Recalled:
        return Recalled(memory=await self.store.load(ctx.owner))

    async def remember(self, ctx: RunContext, call: str, content: str, category: Category) -> Fact:
        raise NotImplementedError("no turn of this scenario does that")


@dataclass
class Measured:
    """CPU ms of this process, by kind of work."""

    update: list[float] = field(default_factory=list)
    told: list[float] = field(default_factory=list)
    untold: list[float] = field(default_factory=list)


def full_memory() -> Memory:
    """A memory as large as the defaults allow, with facts of ordinary length."""
    now = SystemClock().now() - timedelta(days=3)
    facts = tuple(
        Fact(
            id=f"f{number:03}",
            content=f"Number {number}: {LIKES}",
            category="preference",
            confidence=0.8,
            created_at=now,
            source="r0",
            said_by=OWNER,
        )
        for number in range(FACTS)
    )
    return with_summaries(Memory(facts=facts), {name: Summary(summary=SUMMARY, updated_at=now) for name in SUMMARIES})


def turns() -> list[Exchange]:
    """The exchanges since the last update."""
    said = (
        Said(role="person", text="Tomorrow we plan the garden, please keep that short. " * 3, name="Ann"),
        Said(role="agent", text="Here is a plan in five steps, with sources. " * 12),
    )
    return [
        Exchange(
            owner=OWNER,
            thread_id="t1",
            run_id=f"r{number}",
            speaker=OWNER,
            is_group=False,
            locale="en",
            tainted=False,
            outcome="success",
            at=SystemClock().now(),
            said=said,
        )
        for number in range(TURNS)
    ]


async def memory_cost(rounds: int) -> Outcome:
    """Measure the costs. rounds: of updates, and of turns of either kind."""
    known, measured = full_memory(), Measured()
    async with SimulatorProcess("tests.simulators.model") as process, ModelSimulator(process.port) as model:
        await model.script("Answer with one JSON object", [Say(text=json.dumps(ANSWER))], match="contains")
        async with _harness(model, known) as harness:
            for number in range(rounds + 1):
                spent = await _update(harness, known)
                measured.update += [spent] if number else []
        updates = await model.updates()
        problems = [] if len(updates) == rounds + 1 else [f"{len(updates)} requests for {rounds + 1} updates"]
        for memory, spent_ms in ((known, measured.told), (None, measured.untold)):
            async with _harness(model, memory) as harness:
                for number in range(rounds + 1):
                    spent = await _turn(harness, number)
                    spent_ms += [spent] if number else []
        asked = await model.completions()
    return Outcome(_figures(known, measured, updates[-1], asked), {"rounds": rounds, "facts": FACTS}, problems)


def _figures(known: Memory, measured: Measured, update: Record, asked: Sequence[Record]) -> list[Figure]:
    told, untold = asked[0].body, asked[-1].body
    offered_ms, kept = _merged(known)
    return [
        Figure("update_input", sum(tokens(each["content"]) for each in update.body["messages"]), "tokens"),
        Figure("update_output", tokens(json.dumps(ANSWER)), "tokens"),
        Figure("update_cpu", _median(measured.update), "ms"),
        Figure("merge_10000_offered_cpu", offered_ms, "ms"),
        Figure("merge_10000_offered_kept", kept, "facts"),
        Figure("thread_told", tokens(memory_block(known, MemorySettings(), SystemClock().now())), "tokens"),
        Figure("prompt_and_tools_more", _fixed(told) - _fixed(untold), "tokens"),
        Figure("turn_cpu_with_memory", _median(measured.told), "ms"),
        Figure("turn_cpu_without", _median(measured.untold), "ms"),
        Figure("stored", len(known.to_json().encode()), "bytes"),
    ]


def _fixed(body: dict[str, Any]) -> int:
    """Tokens of the common beginning of all requests of an agent, which providers cache."""
    return tokens(body["messages"][0]["content"]) + tokens(json.dumps(body.get("tools", [])))


def _merged(known: Memory) -> tuple[float, int]:
    now = SystemClock().now()
    offered = tuple(
        Proposed(content=f"thing {number}", category="knowledge", confidence=0.75, at=now, source="r1", said_by=OWNER)
        for number in range(OFFERED)
    )
    began = time.process_time()
    after = merged(known, Changes(added=offered), MemorySettings(), now)
    return (time.process_time() - began) * 1000, len(after.facts)


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


async def _update(harness: HarnessRunner, known: Memory) -> float:
    began = time.process_time()
    updated = await harness.remember(known, turns())
    spent = (time.process_time() - began) * 1000
    if updated is None or len(updated.changes.added) != len(ANSWER["add"]):
        raise AssertionError(f"the update gave {updated and updated.changes}")
    return spent


async def _turn(harness: HarnessRunner, number: int) -> float:
    """CPU ms of the first turn of a thread, which includes the memory."""
    ctx = RunContext(
        thread_id=f"thread-{number}",
        run_id=f"{number:032x}",
        account="telegram",
        conversation=OWNER,
        owner=OWNER,
        speaker=Speaker(id=OWNER, display_name="Ann"),
        is_group=False,
        locale="en",
        model="main",
    )
    began = time.process_time()
    async with contextlib.aclosing(harness.run(ctx, RunInput(message_id=f"m{number}", text="!say hello"))) as events:
        ended = [event.type async for event in events][-1]
    if ended != "finished":
        raise AssertionError(f"a turn ended with {ended}")
    return (time.process_time() - began) * 1000


@contextlib.asynccontextmanager
async def _harness(model: ModelSimulator, known: Memory | None) -> AsyncIterator[HarnessRunner]:
    """An agent. known: its memory; None: without one."""
    values = {"name": "main", "model": "sim", "base_url": model.base_url, "api_key": model.api_key}
    with tempfile.TemporaryDirectory(prefix="antler-bench-") as folder:
        store = FileMemoryStore(Path(folder) / "users")
        if known is not None:
            await store.save(OWNER, known)
        parts = Parts(
            models=[ModelSettings.model_validate(values)],
            effects=MemoryEffectLog(),
            ledger=MemoryRunLedger(),
            clock=SystemClock(),
            route=lambda name: (None, None),
            remembering=Remembering(memories=Kept(store), settings=MemorySettings()) if known is not None else None,
        )
        harness = await make_harness(parts, str(Path(folder) / "checkpoints.db"))
        try:
            yield harness
        finally:
            await harness.close()
