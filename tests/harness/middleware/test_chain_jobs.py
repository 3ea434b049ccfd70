"""The jobs around an agent: who does each, and where; in the chain, in the runner, or fed by the run's events."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents.middleware import AgentMiddleware

from harness.middleware import ChainParts, layered, middleware_chain
from harness.tools.asking import ask_tool
from harness.tools.planning import WRITE_TODOS, planning_tool
from tests.harness.support import MemoryBudget, chain_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

Chain = list[AgentMiddleware[Any, Any, Any]]

MODEL, TOOL, NODE = "awrap_model_call", "awrap_tool_call", "abefore_model"
HOOKS = ("abefore_agent", NODE, "aafter_model", "aafter_agent", MODEL, TOOL)


@dataclass(frozen=True)
class Layer:
    """A job of the chain. hooks: all that its class has. subagents: whether their chain has it too."""

    job: str
    name: str
    hooks: tuple[str, ...]
    subagents: bool = True


LAYERS = [
    Layer("every call is answered right after it", "DanglingToolCall", (MODEL, TOOL)),
    Layer("what a run's prompt says of its place and skills", "PromptSlots", (MODEL,)),
    Layer("failures of the model", "LLMErrorHandling", (MODEL,)),
    # Outside the guardrail, so that nobody is asked about a tool that is not to be had yet.
    Layer("tools that have to be found first", "DeferredToolFilter", (MODEL, TOOL)),
    Layer("allow, deny or ask", "Guardrail", (TOOL,)),
    Layer("commands are classified and logged", "SandboxAudit", (TOOL,)),
    Layer("a call happens at most once", "EffectGuard", (TOOL,)),
    Layer("a tool's exception becomes a result", "ToolErrorHandling", (TOOL,)),
    Layer("long results go to a file", "ToolOutputBudget", (TOOL,)),
    Layer("what strangers wrote is data", "ForeignResults", (TOOL,)),
    Layer("the history stays short", "Summarization", (NODE,), subagents=False),
    Layer("pictures for models that see", "ViewImage", (MODEL,)),
    Layer("the plan outlives a summary", "TodoList", (MODEL,), subagents=False),
    Layer("no more tasks at once than allowed", "SubagentLimit", (MODEL,), subagents=False),
    Layer("calls that repeat themselves", "LoopDetection", (MODEL,)),
    Layer("what happens is told", "RunReport", (MODEL, TOOL)),
    Layer("a budget that is used up", "BudgetStop", (MODEL,)),
    Layer("so many model calls", "ModelCallLimit", (MODEL,)),
    Layer("a question ends the turn", "Clarification", (MODEL,), subagents=False),
    Layer("no picture for a model that is blind", "Sightless", (MODEL,)),
    Layer("nothing for a run with which another process goes on", "StillHere", (MODEL,)),
]
VARIANTS = {"Fallback": "LLMErrorHandling"}
"""Stands for another one where there are fallbacks."""


@dataclass(frozen=True)
class Elsewhere:
    """A job outside the chain, since a run that fails, is stopped or killed needs it too. user: the module with it."""

    job: str
    user: str
    name: str


ELSEWHERE = [
    Elsewhere("the thread's folders", "sandbox.files.workspace", "Workspaces"),
    Elsewhere("names the message's files to the model", "harness.run.runner", "user_turn"),
    Elsewhere("the sandbox, from the first call to the end of the run", "harness.run.runner", "RunSandbox"),
    Elsewhere("the plan's tool", "harness.agents.maker", "planning_tool"),
    Elsewhere("tokens and their cost, from the run's events", "bot.usage.meter", "EventRecord"),
    Elsewhere("what may still be spent", "bot.usage.report", "Budgets"),
    Elsewhere("the thread's title, after its first answer", "bot.process.wiring", "Titles"),
]


def everything() -> ChainParts:
    """An agent with all that there is."""
    return chain_parts(
        supports_vision=True, blind_fallback=True, budget=MemoryBudget(), tools=[WRITE_TODOS], deferred=(), delegates=3
    )


def hooks(middleware: AgentMiddleware[Any, Any, Any]) -> tuple[str, ...]:
    return tuple(name for name in HOOKS if getattr(type(middleware), name) is not getattr(AgentMiddleware, name))


def described(chain: Chain) -> list[tuple[str, tuple[str, ...]]]:
    names = [(type(middleware).__name__, hooks(middleware)) for middleware in chain]
    return [(VARIANTS.get(name, name), where) for name, where in names]


def expected(layers: Sequence[Layer]) -> list[tuple[str, tuple[str, ...]]]:
    return [(layer.name, layer.hooks) for layer in layers]


def test_each_job_of_the_chain_is_done_in_its_place() -> None:
    assert described(middleware_chain(everything())) == expected(LAYERS)
    assert described(middleware_chain(everything(), lead=False)) == expected(
        [layer for layer in LAYERS if layer.subagents]
    )


def test_fallbacks_stand_where_failures_are_handled() -> None:
    assert type(middleware_chain(everything())[2]).__name__ == "Fallback"


class Noted(AgentMiddleware[Any, Any, Any]):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return f"{self._name}({await handler(request)})"

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return f"{self._name}[{await handler(request)}]"


async def test_the_first_layer_is_the_outermost_of_the_one_that_they_become() -> None:
    (layers,) = layered([Noted("a"), AgentMiddleware(), Noted("b")])

    async def innermost(request: Any) -> Any:
        return request

    model, tool = layers.awrap_model_call, layers.awrap_tool_call
    assert await model("asked", innermost) == "a(b(asked))"  # type: ignore[arg-type, comparison-overlap]
    assert await tool("called", innermost) == "a[b[called]]"  # type: ignore[arg-type, comparison-overlap]


def test_what_has_a_node_hook_stands_beside_the_layers() -> None:
    names = [type(each).__name__ for each in layered(middleware_chain(everything()))]
    assert names == ["Layers", "Summarization"]


def test_at_most_two_jobs_cost_a_node_of_the_graph() -> None:
    nodes = [layer.name for layer in LAYERS if set(layer.hooks) - {MODEL, TOOL}]
    assert nodes == ["Summarization"]


@pytest.mark.parametrize("job", ELSEWHERE, ids=lambda job: job.job)
def test_the_others_have_their_place_too(job: Elsewhere) -> None:
    assert callable(getattr(importlib.import_module(job.user), job.name))


def test_the_tools_that_belong_to_a_job() -> None:
    assert ask_tool().return_direct, "the graph ends after its result"
    assert planning_tool().name == WRITE_TODOS
