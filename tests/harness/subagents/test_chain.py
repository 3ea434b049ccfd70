"""The chain of a subagent: what of the lead agent's it has, in which order, and that no layer costs a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain.agents.middleware import AgentMiddleware

from harness.middleware import middleware_chain
from tests.harness.support import chain_parts

if TYPE_CHECKING:
    from typing import Any

ORDER = [
    "DanglingToolCall",
    "PromptSlots",
    "LLMErrorHandling",
    "DeferredToolFilter",
    "Guardrail",
    "SandboxAudit",
    "EffectGuard",
    "ToolErrorHandling",
    "ToolOutputBudget",
    "ForeignResults",
    "ViewImage",
    "LoopDetection",
    "RunReport",
    "ModelCallLimit",
    "StillHere",
]


def full_chain() -> list[AgentMiddleware[Any, Any, Any]]:
    return middleware_chain(chain_parts(supports_vision=True, deferred=()), lead=False)


def test_it_has_what_guards_and_nothing_that_asks_or_delegates() -> None:
    assert [type(layer).__name__ for layer in full_chain()] == ORDER


def test_no_layer_costs_a_node() -> None:
    hooks = ("before_agent", "before_model", "after_model", "after_agent")
    for layer in full_chain():
        for hook in (*hooks, *(f"a{hook}" for hook in hooks)):
            assert getattr(type(layer), hook) is getattr(AgentMiddleware, hook)
