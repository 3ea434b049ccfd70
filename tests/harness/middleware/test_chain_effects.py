"""One turn of two tool rounds through the whole chain: what each port, the reader of the events and the tool see, in
the order in which it happens."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, ToolMessage

from harness.guardrails.config import GuardrailSettings
from harness.guardrails.port import GuardRequest, Verdict
from harness.ports import (
    AuditEntry,
    Effect,
    EffectKey,
    MemoryAuditLog,
    MemoryEffectLog,
    MemoryRunLedger,
    Overdraft,
)
from tests.harness.support import Bench, MemoryBudget, Script, Step, calls, context, in_memory, results, said, unpaired
from tests.simulators.sandbox.provider import MemoryProvider, MemorySandbox

if TYPE_CHECKING:
    from harness.context import RunContext
    from harness.run.runner import HarnessRunner
    from sandbox.base import CommandResult, FileInfo, FileText, Problem

TOLD = ("usage", "tool_started", "tool_ended", "finished")
"""The kinds of events that are a part of the order."""
SECONDS = 45.0


class Trace:
    """What happened. Whoever must come after an event waits until the reader has it: an event that were told too late
    would end the test."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._changed = asyncio.Condition()

    async def note(self, line: str) -> None:
        async with self._changed:
            self.lines.append(line)
            self._changed.notify_all()

    async def after(self, kind: str, line: str) -> None:
        """Note it once the newest event that the reader has is of this kind."""
        async with asyncio.timeout(SECONDS), self._changed:
            await self._changed.wait_for(lambda: self._newest_event() == kind)
            self.lines.append(line)

    def _newest_event(self) -> str:
        return next((line.removeprefix("told ") for line in reversed(self.lines) if line.startswith("told ")), "")


TRACES: list[Trace] = []
"""The newest one is the running test's: a provider of guardrails is made by its path."""


class NotedRules:
    async def evaluate(self, request: GuardRequest) -> Verdict:
        await TRACES[-1].after("usage", f"guardrail allows {request.tool}")
        return Verdict("allow")


class NotedAudit(MemoryAuditLog):
    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace

    async def append(self, entry: AuditEntry) -> None:
        await self._trace.note(f"audit {entry.event}")


class NotedEffects(MemoryEffectLog):
    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace

    async def begin(self, key: EffectKey, tool: str) -> Effect | None:
        await self._trace.note(f"effect started: {tool}")
        return await super().begin(key, tool)

    async def done(self, key: EffectKey, result: str) -> None:
        await self._trace.after("tool_ended", f"effect done: {ToolMessage.model_validate_json(result).status}")
        await super().done(key, result)


class NotedLedger(MemoryRunLedger):
    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace

    async def model_called(self, run_id: str) -> int:
        await self._trace.note("model call counted")
        return await super().model_called(run_id)


class NotedBudget(MemoryBudget):
    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace

    async def overdraft(self, ctx: RunContext) -> Overdraft | None:
        await self._trace.note("budget asked")
        return await super().overdraft(ctx)


class NotedSandbox(MemorySandbox):
    def __init__(self, trace: Trace, thread_id: str, drive: Any) -> None:
        super().__init__(thread_id, drive)
        self._trace = trace

    async def execute_command(self, command: str, **more: Any) -> CommandResult:
        await self._trace.after("tool_started", "the tool runs")
        return await super().execute_command(command, **more)

    async def read_file(self, path: str, **more: Any) -> FileText | Problem:
        await self._trace.after("tool_started", "the tool runs")
        return await super().read_file(path, **more)

    async def write_file(self, path: str, content: str | bytes, **more: Any) -> FileInfo | Problem:
        await self._trace.after("tool_ended", "the whole result kept")
        return await super().write_file(path, content, **more)


class NotedProvider(MemoryProvider):
    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace

    async def acquire(self, thread_id: str) -> MemorySandbox:
        await self._trace.after("tool_started", "sandbox acquired")
        return NotedSandbox(self._trace, thread_id, self.drive(thread_id))

    async def release(self, thread_id: str) -> None:
        await self._trace.note("sandbox released")


def noted(trace: Trace, answer: str | AIMessage) -> Step:
    async def step() -> str | AIMessage:
        await trace.note("the model answers")
        return answer

    return step


async def read(harness: HarnessRunner, trace: Trace) -> None:
    """Run the turn as a reader of its events does."""
    async with aclosing(harness.run(context("r1"), said("go"))) as stream:
        async for event in stream:
            if event.type in TOLD:
                await trace.note(f"told {event.type}")


ORDER = [
    # The first round: a command, with a result that is too long for the thread.
    *("budget asked", "model call counted", "the model answers", "told usage"),
    "guardrail allows bash",
    "audit asked",
    "effect started: bash",
    "told tool_started",
    *("sandbox acquired", "the tool runs"),
    "told tool_ended",
    "the whole result kept",
    "effect done: success",
    "audit ended",
    # The second: a file that is not there. It is no command, so there is nothing to audit.
    *("budget asked", "model call counted", "the model answers", "told usage"),
    "guardrail allows read_file",
    "effect started: read_file",
    "told tool_started",
    "the tool runs",
    "told tool_ended",
    "effect done: error",
    # The answer.
    *("budget asked", "model call counted", "the model answers", "told usage"),
    "told finished",
    "sandbox released",
]


async def test_effects_go_in_through_the_chain_and_out_again(bench: Bench, script: Script) -> None:
    trace = Trace()
    TRACES.append(trace)
    bench.audit, bench.effects = NotedAudit(trace), NotedEffects(trace)
    bench.ledger, bench.budget = NotedLedger(trace), NotedBudget(trace)
    bench.guardrails = GuardrailSettings(use="tests.harness.middleware.test_chain_effects:NotedRules")
    in_memory(bench, provider=NotedProvider(trace))
    script.steps = [
        noted(trace, calls(("bash", {"command": "seq 9000"}), ids=["one"])),
        noted(trace, calls(("read_file", {"path": "missing"}), ids=["two"])),
        noted(trace, "done"),
    ]
    async with bench.open() as harness:
        await read(harness, trace)
    TRACES.clear()
    assert trace.lines == ORDER
    assert unpaired(script.requests[-1]) is None
    assert [message.status for message in results(script)] == ["success", "error"]
