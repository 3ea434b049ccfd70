"""The chain around the model and the tools: one job per file, the order only here.

A `wrap_*` hook costs nothing; a node hook (`before_*`, `after_*`) is a graph node with its own checkpoint, about a
millisecond and two writes per turn. So only Summarization has one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware

from harness.graph.calls import RECORD, is_foreign
from harness.middleware.effects import EffectGuard, RunReport, StillHere
from harness.middleware.fallback import Candidate, Fallback
from harness.middleware.guardrail import Guardrail
from harness.middleware.limits import BudgetStop, LoopDetection, ModelCallLimit, SubagentLimit
from harness.middleware.llm_errors import LLMErrorHandling
from harness.middleware.pictures import Sightless, ViewImage
from harness.middleware.requests import Clarification, DanglingToolCall, DeferredToolFilter, TodoList
from harness.middleware.sandbox_audit import SandboxAudit
from harness.middleware.skills import PromptSlots, SkillTools
from harness.middleware.steering import Meanwhile
from harness.middleware.summarization import Summarization
from harness.middleware.tool_results import ForeignResults, ToolErrorHandling, ToolOutputBudget
from harness.middleware.tracing import Traced
from harness.research.tool import CitedFiles, ResearchRecord
from harness.tools.planning import WRITE_TODOS
from harness.web.known import OnlyKnown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain.agents.middleware import ModelRequest, ModelResponse, ToolCallRequest
    from langchain_core.language_models import BaseChatModel

    from harness.agents.parts import Parts
    from harness.config import ModelSettings
    from harness.graph.calls import ModelHandler, ToolHandler, ToolResult
    from harness.guardrails.approvals import Proposing
    from harness.models.pool import Breaker, Standby


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainParts:
    """What the middlewares of one graph need: the parts of its agent, and what is specific to this graph.

    model_call_limit: None: that of the parts. proposing: by tool name. tools: the names of all tools; deferred: those
    that have to be found first, None if no servers are connected. delegates: number of concurrent tasks, None for an
    agent that delegates none. fallbacks: in order. only_skills: names of its skills, None: all. only_known,
    cites_files: see harness.subagents.kinds.Kind.
    """

    parts: Parts
    model: BaseChatModel
    settings: ModelSettings
    breaker: Breaker
    model_call_limit: int | None = None
    proposing: Mapping[str, Proposing] = field(default_factory=dict)
    tools: Sequence[str] = ()
    deferred: Sequence[str] | None = None
    delegates: int | None = None
    fallbacks: Sequence[Standby] = ()
    only_skills: tuple[str, ...] | None = None
    only_known: bool = False
    cites_files: bool = False

    def summarization(self, meanwhile: Meanwhile | None = None) -> Summarization:
        """The summarization with this graph's model."""
        return _summarization(self.parts, self.model, self.settings, meanwhile)

    @property
    def slots(self) -> PromptSlots:
        """The middleware that fills the system prompt's slots for a run."""
        skills = self.parts.skills
        return PromptSlots(
            skills.prompt_tokens if skills is not None else None, frozenset(self.tools), self.only_skills
        )

    @property
    def limit(self) -> int:
        """Limit of model calls of one run."""
        return self.parts.model_call_limit if self.model_call_limit is None else self.model_call_limit

    @property
    def views_images(self) -> bool:
        """Whether the agent can view pictures among its files."""
        return self.settings.supports_vision and self.parts.sandbox is not None

    @property
    def has_foreign_tools(self) -> bool:
        """Whether some of the tools are the operator's own."""
        return any(map(is_foreign, self.parts.tools))


def middleware_chain(chain: ChainParts, *, lead: bool = True) -> list[AgentMiddleware[Any, Any, Any]]:
    """The chain, outermost first. lead: of a lead agent; else of a subagent, which keeps nothing, asks no one and
    delegates nothing. It has no node hook: its short history is cut only when the provider rejects it."""
    shared = chain.parts
    heard = Meanwhile(shared.steering, chain.settings, shared.clock) if lead and shared.steering is not None else None
    summarization = chain.summarization(heard)
    return [
        # Outermost, so that every request, including retries and summarised ones, has its calls and results paired, and
        # that no one is asked about a call that was cut.
        DanglingToolCall(),
        # Outside the retries and the fallbacks: whichever model answers sees the same prompt.
        chain.slots,
        # Around everything that calls the model: each attempt passes through the limit and the report below. A failure
        # of a subagent ends only that, and the breaker is shared by all.
        _handling(chain, summarization),
        *_around_tools(chain),
        # The node hook: messages that arrived during the run join the history, which is cut before the request is
        # built; both are stored.
        *([summarization] if lead else []),
        # Inside the error handling, so that no retry or summary ever stores a picture.
        *([ViewImage()] if chain.views_images else []),
        # At the end of the request, and in no thread.
        *([TodoList()] if lead and WRITE_TODOS in chain.tools else []),
        # Offers as few tools as possible: most threads have no research.
        *([ResearchRecord()] if lead and RECORD in chain.tools else []),
        # Outside the report, so that it cuts messages in their stored form.
        *([SubagentLimit(chain.delegates)] if lead and chain.delegates is not None else []),
        # Outside what reports and counts model calls, since a stop makes one more; inside the retries, each of which it
        # has to see. A subagent's turn is its whole task.
        LoopDetection(shared.loop),
        # Inside the guard, so that only real calls are reported; outside the limit, whose answer it reports. A subagent
        # reports to its watch, which passes on what counts for the run.
        RunReport(chain.settings.name),
        # Next to the report, for the same calls, and outside of what only stops the run.
        *([Traced(shared.tracing, chain.settings.name)] if shared.tracing is not None else []),
        # Outside the count, which it may spare a call; inside the report, which reports its last one.
        *([BudgetStop(shared.budget, chain.settings.name)] if shared.budget is not None else []),
        # Inside everything that inspects answers: counts every attempt, since each one costs money.
        ModelCallLimit(shared.ledger, chain.limit),
        # Innermost: an answer that asks the person is nothing but the question to all others.
        *([Clarification()] if lead else []),
        # As near to the model as possible: a model without vision gets no image, whatever its origin.
        *_sightless(chain),
        # Directly before the request: a process that froze after this check would still send it.
        StillHere(shared.may_act),
    ]


def _around_tools(chain: ChainParts) -> list[AgentMiddleware[Any, Any, Any]]:
    """The part of the chain that decides on calls of tools and handles their results."""
    shared = chain.parts
    return [
        # Outside the guardrail: no one is asked about a call that will not be made anyway. A subagent starts with what
        # the thread has found.
        *([DeferredToolFilter(chain.tools, chain.deferred)] if chain.deferred is not None else []),
        # Outside the guardrail and the record too: a call that a skill's list forbids does not count as a call. The
        # lists of the skills that the lead agent follows apply to its subagents.
        *([SkillTools()] if shared.skills is not None else []),
        # Outermost of what may run a tool: a call that is denied, or waits for a person, does not count as a call yet.
        # No one can be asked from within a subagent: a call that would need that is not made.
        _guardrail(chain),
        # Decides whether a command may run, so it is outside of what records that it did.
        *([SandboxAudit(shared.audit, shared.clock)] if shared.sandbox is not None else []),
        # Around the tool, inside what decides whether it may run: only real calls are recorded. A subagent's have keys
        # of their own: after a crash the lead agent's `task` call is interrupted, and nothing in it runs again.
        EffectGuard(shared.effects),
        # Inside the guard: a failure is a result too, and is not retried after a crash.
        ToolErrorHandling(),
        # Inside the guard, so that its record and the thread contain the short form; inside the error handling, since
        # it writes to the sandbox.
        ToolOutputBudget(),
        # Inside the budget, which keeps both ends of a long result and with them the block's; only the tool's own words
        # are foreign.
        *([ForeignResults()] if chain.has_foreign_tools else []),
        # Nearest to the tool: it searches the whole result for addresses.
        *([OnlyKnown(shared.sources)] if chain.only_known else []),
        *([CitedFiles(shared.sources, shared.clock)] if chain.cites_files else []),
    ]


def _summarization(
    parts: Parts, model: BaseChatModel, settings: ModelSettings, meanwhile: Meanwhile | None = None
) -> Summarization:
    return Summarization(model, parts.summarization, settings, parts.clock, parts.health, parts.may_act, meanwhile)


def _handling(chain: ChainParts, summarization: Summarization) -> LLMErrorHandling | Fallback:
    """The handling of failures: of one model, or of several in turn until one answers."""
    parts = chain.parts
    first = LLMErrorHandling(chain.settings, parts.llm, parts.clock, chain.breaker, summarization, parts.health)
    if not chain.fallbacks:
        return first
    others = []
    for other in chain.fallbacks:
        own = _summarization(parts, other.chat, other.settings)
        handling = LLMErrorHandling(other.settings, parts.llm, parts.clock, other.breaker, own, parts.health)
        others.append(Candidate(other.settings, other.chat, handling, own))
    return Fallback([Candidate(chain.settings, chain.model, first, summarization), *others], parts.llm, parts.clock)


def _sightless(chain: ChainParts) -> list[Sightless]:
    settings = [chain.settings, *(other.settings for other in chain.fallbacks)]
    blind = frozenset(each.name for each in settings if not each.supports_vision)
    return [Sightless(blind, chain.settings.name)] if blind else []


def _guardrail(chain: ChainParts) -> Guardrail:
    guarding, sandbox = chain.parts.guarding, chain.parts.sandbox
    return Guardrail(
        guarding.provider,
        guarding.approvals,
        provider_seconds=guarding.provider_seconds,
        isolation=str(sandbox.report.isolation) if sandbox is not None else "none",
        proposing=chain.proposing,
    )


class Layers(AgentMiddleware[Any, Any, Any]):
    """The `wrap_*` hooks of a chain combined in one middleware.

    LangChain wraps each middleware's hook in LangSmith's tracing, which costs as much as the hook itself even if
    tracing is off.
    """

    def __init__(self, chain: Sequence[AgentMiddleware[Any, Any, Any]]) -> None:
        super().__init__()
        plain = AgentMiddleware
        around_model = [each for each in chain if type(each).awrap_model_call is not plain.awrap_model_call]
        around_tool = [each for each in chain if type(each).awrap_tool_call is not plain.awrap_tool_call]
        self._around_model = [each.awrap_model_call for each in reversed(around_model)]
        self._around_tool = [each.awrap_tool_call for each in reversed(around_tool)]

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        call: Any = handler
        for hook in self._around_model:
            call = partial(hook, handler=call)
        response: ModelResponse[Any] = await call(request)
        return response

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        call: Any = handler
        for hook in self._around_tool:
            call = partial(hook, handler=call)
        result: ToolResult = await call(request)
        return result


def layered(chain: Sequence[AgentMiddleware[Any, Any, Any]]) -> list[AgentMiddleware[Any, Any, Any]]:
    """A chain in the form for `create_agent`: its layers as one middleware, followed by those with node hooks."""
    return [Layers(chain), *(each for each in chain if isinstance(each, Summarization))]
