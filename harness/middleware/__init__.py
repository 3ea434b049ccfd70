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
from harness.middleware.sandbox_audit import SandboxAudit
from harness.middleware.summarization import Summarization
from harness.middleware.tool_errors import ToolErrorHandling
from harness.middleware.tool_output import ToolOutputBudget
from harness.middleware.view_image import ViewImage

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.language_models import BaseChatModel

    from harness.breaker import Breaker
    from harness.config import LlmSettings, ModelSettings, SummarizationSettings
    from harness.ports import AuditLog, Clock, EffectLog, RunLedger


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainParts:
    """What the middlewares of one graph need. audit: None where no commands are run."""

    model: BaseChatModel
    settings: ModelSettings
    summarization: SummarizationSettings
    llm: LlmSettings
    model_call_limit: int
    effects: EffectLog
    ledger: RunLedger
    clock: Clock
    breaker: Breaker
    audit: AuditLog | None = None
    views_images: bool = False


def middleware_chain(parts: ChainParts) -> list[AgentMiddleware[Any, Any, Any]]:
    """The chain, outermost first."""
    summarization = Summarization(parts.model, parts.summarization, parts.settings, parts.clock)
    return [
        # Outermost, so that every request, retries and summarised ones too, has its calls and results paired.
        DanglingToolCall(),
        # Around everything that calls the model: each attempt passes the limit and the report below.
        LLMErrorHandling(parts.settings, parts.llm, parts.clock, parts.breaker, summarization),
        # Decides whether a command may run, so it stands outside of what records that it did.
        *([SandboxAudit(parts.audit, parts.clock)] if parts.audit is not None else []),
        # Around the tool, inside whatever decides whether it may run: only real calls are recorded.
        EffectGuard(parts.effects),
        # Inside the guard: a failure is a result too, and after a crash it is not tried again.
        ToolErrorHandling(),
        # Inside the guard, so that its record and the thread hold the short form; inside the error handling, since it
        # writes to the sandbox.
        ToolOutputBudget(),
        # The node hook: history is cut before the request is built, and the cut is stored.
        summarization,
        # Inside the error handling, so that no retry or summary ever stores a picture.
        *([ViewImage()] if parts.views_images else []),
        # Inside the guard, so that only calls that really happen are told; outside the limit, whose answer it tells.
        RunReport(parts.settings.name),
        # Innermost: counts every attempt, since each one costs money.
        ModelCallLimit(parts.ledger, parts.model_call_limit),
    ]
