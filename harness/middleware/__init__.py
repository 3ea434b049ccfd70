"""The chain around the model and the tools: one job per file, the order here and nowhere else.

A `wrap_*` hook costs nothing; a node hook (`before_*`, `after_*`) is a graph node with a checkpoint of its own, about
a millisecond and two commits per turn. So Summarization has the only one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.middleware.dangling import DanglingToolCall
from harness.middleware.effects import EffectGuard
from harness.middleware.limit import ModelCallLimit
from harness.middleware.llm_errors import LLMErrorHandling
from harness.middleware.report import RunReport
from harness.middleware.summarization import Summarization

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.language_models import BaseChatModel

    from harness.breaker import Breaker
    from harness.config import LlmSettings, ModelSettings, SummarizationSettings
    from harness.ports import Clock, EffectLog, RunLedger


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainParts:
    """What the middlewares of one graph need."""

    model: BaseChatModel
    settings: ModelSettings
    summarization: SummarizationSettings
    llm: LlmSettings
    model_call_limit: int
    effects: EffectLog
    ledger: RunLedger
    clock: Clock
    breaker: Breaker


def middleware_chain(parts: ChainParts) -> list[AgentMiddleware[Any, Any, Any]]:
    """The chain, outermost first."""
    summarization = Summarization(parts.model, parts.summarization, parts.settings, parts.clock)
    return [
        # Outermost, so that every request, retries and summarised ones too, has its calls and results paired.
        DanglingToolCall(),
        # Around everything that calls the model: each attempt passes the limit and the report below.
        LLMErrorHandling(parts.settings, parts.llm, parts.clock, parts.breaker, summarization),
        # Around the tool, inside whatever will decide later whether it may run: only real calls are recorded.
        EffectGuard(parts.effects),
        # The node hook: history is cut before the request is built, and the cut is stored.
        summarization,
        # Inside the guard, so that only calls that really happen are told; outside the limit, whose answer it tells.
        RunReport(parts.settings.name),
        # Innermost: counts every attempt, since each one costs money.
        ModelCallLimit(parts.ledger, parts.model_call_limit),
    ]
