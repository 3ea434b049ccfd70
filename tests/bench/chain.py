"""`python -m tests.bench.chain MODEL_URL KEY TURNS`: the cost of the default chain per model call, as JSON.

A child process of scenario `chain`: CPU per model round of LangChain's agent without middleware, of the same agent
with the default chain on in-memory ports, and with the default chain on the gateway's own store. Tools, prompt, model
client and checkpoints are the same for all.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.messages import HumanMessage, ToolMessage

from bot.clock import SystemClock
from bot.control.logs import AuditFile
from bot.redaction import Redactor
from bot.runs.approvals import StoreApprovals
from bot.store import Store, runs
from bot.store.retrying import RetryingStore
from bot.store.rows import RunRow
from bot.store.run_events import StoreEffectLog, StoreRunLedger
from channels.message import Address
from harness.agents.parts import Parts
from harness.agents.pool import Agents
from harness.config import ModelSettings
from harness.context import UNREADABLE_INPUT, RunContext, Speaker
from harness.files.spool import Spool, SpoolSettings
from harness.graph.sandbox import RunSandbox, SandboxSetup
from harness.graph.signals import RunScope
from harness.graph.state import ThreadState, thread_config
from harness.guardrails.rules import load_guardrails
from harness.ports import MemoryAuditLog, MemoryEffectLog, MemoryRunLedger
from harness.prompt import Abilities
from harness.skills.library import NO_SKILLS
from harness.subagents.config import SubagentsSettings
from harness.subagents.kinds import delegation_section
from harness.threads.checkpoints import open_checkpoints
from tests.bench.chains import BARE, CHAIN, MODEL_ROUNDS, STORE
from tests.harness.support import system_prompt
from tests.simulators.sandbox.provider import MemoryProvider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from langgraph.checkpoint.base import BaseCheckpointSaver
    from sqlalchemy import Connection

    from harness.agents.maker import Agent
    from harness.graph.state import Graph
    from harness.ports import AuditLog, EffectLog, RunLedger

AT_ONCE = 10
QUESTION = '!tool bash {"command": "echo one"}\n!tool ls {"path": "/mnt/user-data/workspace"}\n!tokens 20 1'
ANSWER = " ".join(["one two three four five six seven eight nine ten"] * 2)

_numbers = itertools.count(1)


@dataclass
class Variant:
    """A graph, and what must exist before a run of it begins. cpu_ms: per model round, of each batch of turns."""

    graph: Graph
    prepare: Callable[[list[RunContext]], Any] | None = None
    cpu_ms: list[float] = field(default_factory=list)


@dataclass
class Setting:
    """The parts that all variants share."""

    model: ModelSettings
    folder: Path
    provider: MemoryProvider
    saver: BaseCheckpointSaver[Any]
    clock: SystemClock = field(default_factory=SystemClock)

    async def agents(self, effects: EffectLog, ledger: RunLedger, audit: AuditLog, approvals: Any = None) -> Agents:
        """Create agents as the runner does from a config with only a model."""
        parts = Parts(
            models=[self.model],
            effects=effects,
            ledger=ledger,
            clock=self.clock,
            route=lambda name: (None, None),
            sandbox=SandboxSetup(provider=self.provider, report=await self.provider.start()),
            audit=audit,
            guarding=load_guardrails(None, approvals),
            spool=Spool(SpoolSettings(folder=self.folder / "spool")),
            subagents=SubagentsSettings(),
        )
        return Agents(parts, self.saver)

    async def bare(self, agent: Agent) -> Graph:
        """LangChain's agent with that agent's tools and prompt."""
        # Imported here because harness must be imported before langgraph.
        from langchain.agents import create_agent

        node: Any = agent.graph.nodes["tools"].bound
        delegation = delegation_section(SubagentsSettings().per_run)
        report = await self.provider.start()
        return create_agent(
            agent.model.chat,
            tools=list(node.tools_by_name.values()),
            system_prompt=agent.slots.filled(
                system_prompt(Abilities(tools=frozenset(node.tools_by_name), report=report), delegation=delegation),
                RunScope(_context(), NO_SKILLS, RunSandbox(self.provider, "")),
            ),
            state_schema=ThreadState,
            context_schema=RunScope,
            checkpointer=self.saver,
        )


@contextlib.asynccontextmanager
async def variants(base_url: str, key: str) -> AsyncIterator[dict[str, Variant]]:
    """All variants, on one file of checkpoints."""
    model = ModelSettings.model_validate({"name": "main", "model": "sim", "base_url": base_url, "api_key": key})
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antler-bench-")))
        checkpoints = await open_checkpoints(str(folder / "checkpoints.db"))
        stack.push_async_callback(checkpoints.close)
        setting = Setting(model, folder, MemoryProvider(), checkpoints.saver)
        store = await Store.open(f"sqlite:///{folder}/antler.db", clock=setting.clock)
        stack.push_async_callback(store.close)
        patient = RetryingStore(store, setting.clock)
        in_memory = await setting.agents(MemoryEffectLog(), MemoryRunLedger(), MemoryAuditLog())
        stored = await setting.agents(
            StoreEffectLog(patient),
            StoreRunLedger(patient),
            AuditFile(folder / "audit.jsonl", Redactor([])),
            StoreApprovals(patient),
        )
        for agents in (in_memory, stored):
            stack.push_async_callback(agents.close)
        yield {
            BARE: Variant(await setting.bare(in_memory.default())),
            CHAIN: Variant(in_memory.default().graph),
            STORE: Variant(stored.default().graph, lambda contexts: _opened(patient, contexts)),
        }


async def _opened(store: RetryingStore, contexts: list[RunContext]) -> None:
    """Create the rows of the runs, which the gateway creates well before a run begins."""
    rows = [
        RunRow(
            run_id=ctx.run_id,
            thread_id=ctx.thread_id,
            conversation=ctx.conversation,
            speaker=ctx.speaker.id,
            inbox_ids=(),
            reply_key=ctx.run_id,
            address=Address(account="telegram", chat=ctx.thread_id, kind="dm"),
            reply_to=None,
            context=ctx,
            input=UNREADABLE_INPUT,
            epoch=store.epoch,
            created_at=store.clock.now(),
        )
        for ctx in contexts
    ]

    def unit(tx: Connection) -> None:
        for row in rows:
            runs.open(tx, row)

    await store.write(unit)


def _context() -> RunContext:
    """The context of a person who has not written before."""
    number = next(_numbers)
    return RunContext(
        thread_id=f"thread-{number}",
        run_id=f"{number:032x}",
        account="telegram",
        conversation=f"telegram:{number}",
        owner=f"telegram:{number}",
        speaker=Speaker(id=f"telegram:{number}", display_name="Ann"),
        is_group=False,
        locale="en",
        model="main",
    )


async def _turn(graph: Graph, ctx: RunContext, provider: MemoryProvider) -> None:
    """Run one turn, streamed as by the runner."""
    sandbox = RunSandbox(provider, ctx.thread_id)
    stream: Any = graph.astream(
        {"messages": [HumanMessage(QUESTION, id=f"inbox-{ctx.run_id}")]},
        thread_config(ctx.thread_id, run_id=ctx.run_id),
        context=RunScope(ctx, NO_SKILLS, sandbox),
        stream_mode=["messages", "custom"],
        durability="sync",
    )
    async for _ in stream:
        pass
    await sandbox.release()


async def _batch(variant: Variant, provider: MemoryProvider) -> tuple[float, RunContext]:
    """CPU ms per model round of AT_ONCE concurrent turns, and the context of one of them."""
    contexts = [_context() for _ in range(AT_ONCE)]
    if variant.prepare is not None:
        await variant.prepare(contexts)
    began = time.process_time()
    await asyncio.gather(*(_turn(variant.graph, ctx, provider) for ctx in contexts))
    return (time.process_time() - began) * 1000 / (AT_ONCE * MODEL_ROUNDS), contexts[0]


async def _check(variant: Variant, ctx: RunContext) -> str:
    """The problem with a completed turn; "" if there is none."""
    state = await variant.graph.aget_state(thread_config(ctx.thread_id))
    messages = state.values["messages"]
    results = [message.status for message in messages if isinstance(message, ToolMessage)]
    if results != ["success", "success"]:
        return f"the tools' results were {results}"
    return "" if messages[-1].text.strip() == ANSWER else f"the answer was {messages[-1].text!r}"


async def measured(base_url: str, key: str, turns: int) -> dict[str, Any]:
    """Measure the median batch of each variant. They alternate, so that the machine is the same for all."""
    provider, wrong = MemoryProvider(), defaultdict(str)
    async with variants(base_url, key) as found:
        for name, variant in found.items():  # the warm-up, which is checked but not counted
            _, ctx = await _batch(variant, provider)
            wrong[name] = await _check(variant, ctx)
        for _ in range(max(1, turns // AT_ONCE)):
            for variant in found.values():
                spent, _ = await _batch(variant, provider)
                variant.cpu_ms.append(spent)
        figures = {name: statistics.median(variant.cpu_ms) for name, variant in found.items()}
    return {"cpu_ms": figures, "problems": [f"{name}: {problem}" for name, problem in wrong.items() if problem]}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measured(sys.argv[1], sys.argv[2], int(sys.argv[3])))))
