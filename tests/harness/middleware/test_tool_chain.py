"""The chain around the tools: what one layer does before and after another, errors, and results that are too long."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, ToolException, tool

from harness.middleware import middleware_chain
from harness.middleware.requests import CUT_OFF
from harness.ports import AuditEntry, Effect, EffectKey, MemoryAuditLog, MemoryEffectLog
from sandbox.base import FileInfo, Problem, ProblemCode
from tests.harness.support import (
    Bench,
    Script,
    answers,
    calls,
    chain_parts,
    collect,
    context,
    in_memory,
    results,
    said,
)
from tests.simulators.sandbox.provider import MemoryProvider, MemorySandbox


def chain(**changes: Any) -> list[str]:
    return [type(middleware).__name__ for middleware in middleware_chain(chain_parts(**changes))]


WHOLE = [
    "DanglingToolCall",
    "PromptSlots",
    "LLMErrorHandling",
    "Guardrail",
    "SandboxAudit",
    "EffectGuard",
    "ToolErrorHandling",
    "ToolOutputBudget",
    "ForeignResults",
    "Summarization",
    "ViewImage",
    "LoopDetection",
    "RunReport",
    "ModelCallLimit",
    "Clarification",
    "Sightless",
    "StillHere",
]


def test_the_order() -> None:
    both = ["Fallback" if name == "LLMErrorHandling" else name for name in WHOLE]
    assert chain(supports_vision=True, blind_fallback=True) == both
    assert chain(supports_vision=True) == [name for name in WHOLE if name != "Sightless"]


def test_what_is_off_is_not_there() -> None:
    off = ("SandboxAudit", "ForeignResults", "ViewImage")
    assert chain(whole=False) == [name for name in WHOLE if name not in off]


def test_there_is_one_node_hook() -> None:
    hooks = ("before_agent", "before_model", "after_model", "after_agent")
    from harness import middleware

    classes = [getattr(middleware, name) for name in WHOLE]
    with_hooks = [
        cls.__name__
        for cls in classes
        if any(getattr(cls, f"a{hook}") is not getattr(AgentMiddleware, f"a{hook}") for hook in hooks)
    ]
    assert with_hooks == ["Summarization"]


class NotedAudit(MemoryAuditLog):
    """Tells the test of every entry."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self.lines = lines

    async def append(self, entry: AuditEntry) -> None:
        self.lines.append(f"{entry.event} {entry.call_id} {entry.verdict}")


class NotedEffects(MemoryEffectLog):
    """Tells the test of every record."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self.lines = lines

    async def begin(self, key: EffectKey, tool: str) -> Effect | None:
        self.lines.append(f"begin {tool}")
        return await super().begin(key, tool)

    async def done(self, key: EffectKey, result: str) -> None:
        self.lines.append(f"done {ToolMessage.model_validate_json(result).status}")
        await super().done(key, result)


async def test_the_order_of_effects_in_a_turn_of_two_rounds(bench: Bench, script: Script) -> None:
    lines: list[str] = []
    bench.audit, effects = NotedAudit(lines), NotedEffects(lines)
    bench.effects = effects
    in_memory(bench)
    script.steps = [
        calls(("bash", {"command": "seq 9000"}), ids=["one"]),
        calls(("bash", {"command": "rm -rf /"}), ("read_file", {"path": "missing"}), ids=["two", "three"]),
        "done",
    ]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("go"))
    assert lines[:4] == ["asked one pass", "begin bash", "done success", "ended one pass"]
    assert sorted(lines[4:]) == ["asked two block", "begin read_file", "done error"]
    assert [(e.tool, e.type) for e in events if e.type in ("tool_started", "tool_ended")] == [
        ("bash", "tool_started"),
        ("bash", "tool_ended"),
        ("read_file", "tool_started"),
        ("read_file", "tool_ended"),
    ]
    long, blocked, missing = results(script)
    assert len(long.content) <= 20_000
    assert (blocked.status, missing.status) == ("error", "error")
    (recorded, *_) = [record for record in effects.records.values() if "left out here" in record.result]
    assert ToolMessage.model_validate_json(recorded.result).content == long.content


@tool(response_format="content_and_artifact")
async def survey() -> tuple[str, object]:
    """One of ours that answers with something that is no JSON besides."""
    return "42", object()


async def test_a_result_that_is_no_json_costs_only_what_is_none(bench: Bench, script: Script) -> None:
    bench.tools = [survey]
    bench.effects = effects = MemoryEffectLog()
    (told,) = await answers(bench, script, calls(("survey", {})))
    assert told == "42"
    (record,) = [each for each in effects.records.values() if each.state == "done"]
    assert ToolMessage.model_validate_json(record.result).artifact is None


async def test_a_long_result_is_kept_in_a_file(bench: Bench, script: Script) -> None:
    provider = in_memory(bench)
    (told, *_) = await answers(
        bench, script, calls(("bash", {"command": "seq 9000"}), ids=["call/../1"]), run="0123456789"
    )
    whole = "".join(f"{number}\n" for number in range(1, 9001)).rstrip("\n")
    path = "/mnt/user-data/outputs/.tool-results/01234567-call____1.txt"
    assert len(told) <= 20_000
    assert told.startswith("1\n2\n")
    assert told.endswith("8999\n9000")
    assert f"of {len(whole)} characters are left out here; the result can be read in {path}" in told
    assert provider.drive("thread-1").file(path).data.decode() == whole


async def test_a_long_result_that_cannot_be_kept(bench: Bench, script: Script) -> None:
    class Full(MemorySandbox):
        async def write_file(
            self, path: str, content: str | bytes, *, append: bool = False, expected: str | None = None
        ) -> FileInfo | Problem:
            return Problem(code=ProblemCode.FULL, path=path)

    class Provider(MemoryProvider):
        async def acquire(self, thread_id: str) -> MemorySandbox:
            return Full(thread_id, self.drive(thread_id))

    in_memory(bench, provider=Provider())
    (told,) = await answers(bench, script, calls(("bash", {"command": "seq 9000"})))
    assert len(told) <= 20_000
    assert "and they are not kept: request less at once" in told


def talkative() -> BaseTool:
    @tool
    async def talk(kind: str) -> str:
        """Talks."""
        match kind:
            case "long":
                return "x" * 30_000
            case "tool":
                raise ToolException("the page has <antler-context> moved\0")
            case "time":
                raise TimeoutError
            case _:
                raise RuntimeError("at /srv/antler/config.yaml with token 123")

    return talk


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("long", "characters are left out here, and they are not kept"),
        ("tool", "talk failed: the page has &lt;antler-context> moved"),
        ("time", "talk took too long and was stopped"),
        ("defect", "talk failed because of a defect in it (RuntimeError)"),
    ],
)
async def test_other_tools_and_no_sandbox(bench: Bench, script: Script, kind: str, words: str) -> None:
    bench.tools = [talkative()]
    (told,) = await answers(bench, script, calls(("talk", {"kind": kind})))
    assert words in told
    assert "/srv" not in told
    assert len(told) <= 20_000
    assert results(script)[0].status == ("success" if kind == "long" else "error")


async def test_a_call_that_the_output_limit_cut_is_not_made(bench: Bench, script: Script) -> None:
    in_memory(bench)
    listed = ("write_file", {"path": "/mnt/user-data/workspace/list", "content": "whole"})
    cut = calls(listed, ("bash", {"command": "rm -r /mnt/user-data/workspace"}), ids=["whole", "cut"])
    cut.response_metadata = {"finish_reason": "length"}
    first, second = await answers(bench, script, cut)
    assert first.startswith("Wrote")
    assert second == CUT_OFF
