"""The chain of a subagent: what of the lead agent's it has, in which order, and that no layer costs a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import FakeListChatModel

from harness.config import LlmSettings, LoopSettings, SummarizationSettings
from harness.guardrails.rules import load_guardrails
from harness.middleware import ChainParts, subagent_chain
from harness.models.pool import Breaker
from harness.ports import MemoryAuditLog, MemoryEffectLog, MemoryRunLedger
from tests.harness.support import HeldClock, scripted_settings

if TYPE_CHECKING:
    from typing import Any

ORDER = [
    "DanglingToolCall",
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
    "SubagentCallLimit",
]


def full_chain() -> list[AgentMiddleware[Any, Any, Any]]:
    clock = HeldClock()
    return subagent_chain(
        ChainParts(
            model=FakeListChatModel(responses=[]),
            settings=scripted_settings(supports_vision=True),
            summarization=SummarizationSettings(),
            llm=LlmSettings(),
            loop=LoopSettings(),
            model_call_limit=5,
            effects=MemoryEffectLog(),
            ledger=MemoryRunLedger(),
            clock=clock,
            breaker=Breaker(clock),
            guarding=load_guardrails(),
            audit=MemoryAuditLog(),
            views_images=True,
            foreign=True,
            deferred=(),
        )
    )


def test_it_has_what_guards_and_nothing_that_asks_or_delegates() -> None:
    assert [type(layer).__name__ for layer in full_chain()] == ORDER


def test_no_layer_costs_a_node() -> None:
    hooks = ("before_agent", "before_model", "after_model", "after_agent")
    for layer in full_chain():
        for hook in (*hooks, *(f"a{hook}" for hook in hooks)):
            assert getattr(type(layer), hook) is getattr(AgentMiddleware, hook)
