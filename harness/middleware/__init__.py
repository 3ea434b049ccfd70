"""The chain around the model and the tools: one job per file, the order here and nowhere else.

A `wrap_*` hook costs nothing; a node hook (`before_*`, `after_*`) is a graph node with a checkpoint of its own, about
a millisecond and two commits per turn. So Summarization has the only one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.middleware.dangling import DanglingToolCall
from harness.middleware.effects import EffectGuard
from harness.middleware.fallback import Candidate, Fallback
from harness.middleware.guardrail import Guardrail
from harness.middleware.limits import BudgetStop, ModelCallLimit, SubagentCallLimit
from harness.middleware.llm_errors import LLMErrorHandling
from harness.middleware.loop import LoopDetection
from harness.middleware.pictures import Sightless, ViewImage
from harness.middleware.report import RunReport
from harness.middleware.requests import Clarification, DeferredToolFilter, TodoList
from harness.middleware.sandbox_audit import SandboxAudit
from harness.middleware.sightless import Sightless
from harness.middleware.skills import SkillList, SkillTools
from harness.middleware.skill_list import SkillList
from harness.middleware.skill_tools import SkillTools
from harness.middleware.steering import Meanwhile
from harness.middleware.subagent_limit import SubagentLimit
from harness.middleware.summarization import Summarization
from harness.middleware.tool_results import ForeignResults, ToolErrorHandling, ToolOutputBudget
from harness.models.health import ModelHealth
from harness.tools.planning import WRITE_TODOS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.language_models import BaseChatModel

    from harness.config import LlmSettings, LoopSettings, ModelSettings, SummarizationSettings
    from harness.guardrails.approvals import Proposing
    from harness.guardrails.rules import Guarding
    from harness.models.pool import Breaker, Standby
    from harness.ports import AuditLog, Budget, Clock, EffectLog, RunLedger, Steering


@dataclass(frozen=True, slots=True)
class SkillChain:
    """What the chain has to know of skills. prompt_tokens: for their list. only: names of those that the agent has,
    None: all."""

    prompt_tokens: Callable[[], int]
    only: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainParts:
    """What the middlewares of one graph need. guarding: None where no call is checked; isolation: of the sandbox's
    commands, for it. asks: it may ask the person. audit: None where no commands are run. tools: the names of all tools;
    deferred: those of them that have to be found first, None where no servers are connected. foreign: some are the
    operator's. delegates: how many tasks at once, None for an agent that delegates none. fallbacks: in their order.
    budget: None where none is set. skills: None for an agent without. steering: None where nothing is said to a run.
    health: is told how calls went."""

    model: BaseChatModel
    settings: ModelSettings
    summarization: SummarizationSettings
    llm: LlmSettings
    loop: LoopSettings
    model_call_limit: int
    effects: EffectLog
    ledger: RunLedger
    clock: Clock
    breaker: Breaker
    budget: Budget | None = None
    guarding: Guarding | None = None
    isolation: str = "none"
    proposing: Mapping[str, Proposing] = field(default_factory=dict)
    asks: bool = True
    audit: AuditLog | None = None
    views_images: bool = False
    foreign: bool = False
    tools: Sequence[str] = ()
    deferred: Sequence[str] | None = None
    delegates: int | None = None
    fallbacks: Sequence[Standby] = ()
    skills: SkillChain | None = None
    steering: Steering | None = None
    health: ModelHealth = field(default_factory=ModelHealth)


def middleware_chain(parts: ChainParts) -> list[AgentMiddleware[Any, Any, Any]]:
    """The chain, outermost first."""
    meanwhile = Meanwhile(parts.steering, parts.settings, parts.clock) if parts.steering is not None else None
    summarization = Summarization(
        parts.model, parts.summarization, parts.settings, parts.clock, parts.health, meanwhile
    )
    return [
        # Outermost, so that every request, retries and summarised ones too, has its calls and results paired.
        DanglingToolCall(),
        # Outside the retries and the fallbacks: whichever model answers reads the same list.
        *_skill_list(parts),
        # Around everything that calls the model: each attempt passes the limit and the report below.
        _handling(parts, summarization),
        # Outside the guardrail: nobody is asked about a call that is not going to be made anyway.
        *([DeferredToolFilter(parts.tools, parts.deferred)] if parts.deferred is not None else []),
        # Outside the guardrail too, and outside the record: a call that a skill's list forbids is no call.
        *([SkillTools()] if parts.skills is not None else []),
        # Outermost of what may run a tool: a call that is denied, or waits for a person, is no call yet.
        *([_guardrail(parts.guarding, parts)] if parts.guarding is not None else []),
        # Decides whether a command may run, so it stands outside of what records that it did.
        *([SandboxAudit(parts.audit, parts.clock)] if parts.audit is not None else []),
        # Around the tool, inside whatever decides whether it may run: only real calls are recorded.
        EffectGuard(parts.effects),
        # Inside the guard: a failure is a result too, and after a crash it is not tried again.
        ToolErrorHandling(),
        # Inside the guard, so that its record and the thread hold the short form; inside the error handling, since it
        # writes to the sandbox.
        ToolOutputBudget(),
        # Inside the budget, which keeps both ends of a long result and with them the block's; only what a tool itself
        # said is foreign.
        *([ForeignResults()] if parts.foreign else []),
        # The node hook: what was said meanwhile joins the history, which is cut before the request is built; both are
        # stored.
        summarization,
        # Inside the error handling, so that no retry or summary ever stores a picture.
        *([ViewImage()] if parts.views_images else []),
        # At the end of what is sent, and in no thread.
        *([TodoList()] if WRITE_TODOS in parts.tools else []),
        # Outside the report, so that it cuts messages in the form in which they are stored.
        *([SubagentLimit(parts.delegates)] if parts.delegates is not None else []),
        # Outside what tells of and counts model calls, since a stop asks once more; inside the retries, each of which
        # it has to see.
        LoopDetection(parts.loop),
        # Inside the guard, so that only calls that really happen are told; outside the limit, whose answer it tells.
        RunReport(parts.settings.name),
        # Around the count, which it may spare a call; inside the report, which tells its last one.
        *([BudgetStop(parts.budget, parts.settings.name)] if parts.budget is not None else []),
        # Inside all that looks at answers: counts every attempt, since each one costs money.
        ModelCallLimit(parts.ledger, parts.model_call_limit),
        # Innermost: an answer that asks the person is nothing but the question to everybody else.
        *([Clarification()] if parts.asks else []),
        # As near to the model as can be: whatever put an image into the request, one that cannot see does not get it.
        *_sightless(parts),
    ]


def _handling(parts: ChainParts, summarization: Summarization) -> LLMErrorHandling | Fallback:
    """What deals with failures: of one model, or of each of several until one answers."""
    first = LLMErrorHandling(parts.settings, parts.llm, parts.clock, parts.breaker, summarization, parts.health)
    if not parts.fallbacks:
        return first
    others = []
    for other in parts.fallbacks:
        own = Summarization(other.chat, parts.summarization, other.settings, parts.clock, parts.health)
        handling = LLMErrorHandling(other.settings, parts.llm, parts.clock, other.breaker, own, parts.health)
        others.append(Candidate(other.settings, other.chat, handling, own))
    return Fallback([Candidate(parts.settings, parts.model, first, summarization), *others])


def _skill_list(parts: ChainParts) -> list[SkillList]:
    return [SkillList(parts.skills.prompt_tokens, parts.skills.only)] if parts.skills is not None else []


def _sightless(parts: ChainParts) -> list[Sightless]:
    settings = [parts.settings, *(other.settings for other in parts.fallbacks)]
    blind = frozenset(each.name for each in settings if not each.supports_vision)
    return [Sightless(blind, parts.settings.name)] if blind else []


def _guardrail(guarding: Guarding, parts: ChainParts) -> Guardrail:
    return Guardrail(
        guarding.provider,
        guarding.approvals,
        provider_seconds=guarding.provider_seconds,
        isolation=parts.isolation,
        proposing=parts.proposing,
    )


def subagent_chain(parts: ChainParts) -> list[AgentMiddleware[Any, Any, Any]]:
    """The chain of a subagent, outermost first: the lead agent's, for an agent that keeps nothing, asks nobody and
    delegates nothing. No node hook: its short history is cut only when the provider refuses it."""
    summarization = Summarization(parts.model, parts.summarization, parts.settings, parts.clock, parts.health)
    return [
        # Outermost, as above.
        DanglingToolCall(),
        # As above.
        *_skill_list(parts),
        # As above; its failure ends the subagent alone, and the breaker is the same for all.
        _handling(parts, summarization),
        # As above; it begins with what the thread has found.
        *([DeferredToolFilter(parts.tools, parts.deferred)] if parts.deferred is not None else []),
        # As above; the lists of the skills that the lead agent follows bind it too.
        *([SkillTools()] if parts.skills is not None else []),
        # As above, but nobody can be asked from within a subagent: what would need that is not done.
        *([_guardrail(parts.guarding, parts)] if parts.guarding is not None else []),
        # What a subagent runs is checked and logged like what the lead agent runs.
        *([SandboxAudit(parts.audit, parts.clock)] if parts.audit is not None else []),
        # With keys of its own: after a crash the lead agent's call of `task` is interrupted, nothing in it runs again.
        EffectGuard(parts.effects),
        # Inside the guard, as above.
        ToolErrorHandling(),
        # As above: subagents read even more.
        ToolOutputBudget(),
        # Inside the budget, as above: what is foreign to the lead agent is to its subagents.
        *([ForeignResults()] if parts.foreign else []),
        # Inside the error handling, as above; of the pictures that it asked for itself.
        *([ViewImage()] if parts.views_images else []),
        # As above; the turn is the whole task.
        LoopDetection(parts.loop),
        # Tells the subagent's watch, which lets through what counts for the run.
        RunReport(parts.settings.name),
        # As above: what its run may still spend.
        *([BudgetStop(parts.budget, parts.settings.name)] if parts.budget is not None else []),
        # Innermost: its own count, up to the kind's max_turns.
        SubagentCallLimit(parts.ledger, parts.model_call_limit),
        # As above.
        *_sightless(parts),
    ]
