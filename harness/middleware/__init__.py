"""The chain around the model and the tools: one job per file, the order here and nowhere else.

A `wrap_*` hook costs nothing; a node hook (`before_*`, `after_*`) is a graph node with a checkpoint of its own, about
a millisecond and two writes per turn. So Summarization has the only one.
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
from harness.middleware.limits import BudgetStop, LoopDetection, ModelCallLimit, SubagentCallLimit, SubagentLimit
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
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from langchain.agents.middleware import ModelRequest, ModelResponse, ToolCallRequest
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import ToolMessage
    from langgraph.types import Command

    from harness.agents.parts import Parts
    from harness.config import ModelSettings
    from harness.guardrails.approvals import Proposing
    from harness.models.pool import Breaker, Standby


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainParts:
    """What the middlewares of one graph need: the parts of its agent, and what this graph has alone.

    model_call_limit: None: the one of the parts. proposing: by the names of tools. tools: the names of all tools;
    deferred: those of them that have to be found first, None where no servers are connected. delegates: how many tasks
    at once, None for an agent that delegates none. fallbacks: in their order. only_skills: names of those that it has,
    None: all. only_known, cites_files: see harness.subagents.kinds.Kind.
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
        """How this graph's model shortens a history."""
        return _summarization(self.parts, self.model, self.settings, meanwhile)

    @property
    def slots(self) -> PromptSlots:
        """What fills the system prompt's slots for a run."""
        skills = self.parts.skills
        return PromptSlots(
            skills.prompt_tokens if skills is not None else None, frozenset(self.tools), self.only_skills
        )

    @property
    def limit(self) -> int:
        """Model calls of one run."""
        return self.parts.model_call_limit if self.model_call_limit is None else self.model_call_limit

    @property
    def views_images(self) -> bool:
        """Whether it can look at pictures in its files."""
        return self.settings.supports_vision and self.parts.sandbox is not None

    @property
    def has_foreign_tools(self) -> bool:
        """Whether some of the tools are the operator's."""
        return any(map(is_foreign, self.parts.tools))


def middleware_chain(chain: ChainParts) -> list[AgentMiddleware[Any, Any, Any]]:
    """The chain, outermost first."""
    shared = chain.parts
    meanwhile = Meanwhile(shared.steering, chain.settings, shared.clock) if shared.steering is not None else None
    summarization = chain.summarization(meanwhile)
    return [
        # Outermost, so that every request, retries and summarised ones too, has its calls and results paired.
        DanglingToolCall(),
        # Outside the retries and the fallbacks: whichever model answers reads the same prompt.
        chain.slots,
        # Around everything that calls the model: each attempt passes the limit and the report below.
        _handling(chain, summarization),
        # Outside the guardrail: nobody is asked about a call that is not going to be made anyway.
        *([DeferredToolFilter(chain.tools, chain.deferred)] if chain.deferred is not None else []),
        # Outside the guardrail too, and outside the record: a call that a skill's list forbids is no call.
        *([SkillTools()] if shared.skills is not None else []),
        # Outermost of what may run a tool: a call that is denied, or waits for a person, is no call yet.
        _guardrail(chain),
        # Decides whether a command may run, so it stands outside of what records that it did.
        *([SandboxAudit(shared.audit, shared.clock)] if shared.sandbox is not None else []),
        # Around the tool, inside what decides whether it may run: only real calls are recorded.
        EffectGuard(shared.effects),
        # Inside the guard: a failure is a result too, and after a crash it is not tried again.
        ToolErrorHandling(),
        # Inside the guard, so that its record and the thread hold the short form; inside the error handling, since it
        # writes to the sandbox.
        ToolOutputBudget(),
        # Inside the budget, which keeps both ends of a long result and with them the block's; only what a tool itself
        # said is foreign.
        *([ForeignResults()] if chain.has_foreign_tools else []),
        # The node hook: what was said meanwhile joins the history, which is cut before the request is built; both are
        # stored.
        summarization,
        # Inside the error handling, so that no retry or summary ever stores a picture.
        *([ViewImage()] if chain.views_images else []),
        # At the end of what is sent, and in no thread.
        *([TodoList()] if WRITE_TODOS in chain.tools else []),
        # As little as possible is offered: most threads have no research.
        *([ResearchRecord()] if RECORD in chain.tools else []),
        # Outside the report, so that it cuts messages in the form in which they are stored.
        *([SubagentLimit(chain.delegates)] if chain.delegates is not None else []),
        # Outside what tells of and counts model calls, since a stop asks once more; inside the retries, each of which
        # it has to see.
        LoopDetection(shared.loop),
        # Inside the guard, so that only calls that really happen are told; outside the limit, whose answer it tells.
        RunReport(chain.settings.name),
        # Beside the report, for the same calls, and before one that only stops the run.
        *([Traced(shared.tracing, chain.settings.name)] if shared.tracing is not None else []),
        # Around the count, which it may spare a call; inside the report, which tells its last one.
        *([BudgetStop(shared.budget, chain.settings.name)] if shared.budget is not None else []),
        # Inside all that looks at answers: counts every attempt, since each one costs money.
        ModelCallLimit(shared.ledger, chain.limit),
        # Innermost: an answer that asks the person is nothing but the question to everybody else.
        Clarification(),
        # As near to the model as can be: a model that cannot see gets no image, wherever that comes from.
        *_sightless(chain),
        # Between this look and the request as little as possible happens: a process that froze there asks all the same.
        StillHere(shared.may_act),
    ]


def _summarization(
    parts: Parts, model: BaseChatModel, settings: ModelSettings, meanwhile: Meanwhile | None = None
) -> Summarization:
    return Summarization(model, parts.summarization, settings, parts.clock, parts.health, parts.may_act, meanwhile)


def _handling(chain: ChainParts, summarization: Summarization) -> LLMErrorHandling | Fallback:
    """What deals with failures: of one model, or of each of several until one answers."""
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


def subagent_chain(chain: ChainParts) -> list[AgentMiddleware[Any, Any, Any]]:
    """The chain of a subagent, outermost first: the lead agent's, for an agent that keeps nothing, asks nobody and
    delegates nothing. No node hook: its short history is cut only when the provider refuses it."""
    shared, summarization = chain.parts, chain.summarization()
    return [
        # Outermost, as above.
        DanglingToolCall(),
        # As above.
        chain.slots,
        # As above; its failure ends the subagent alone, and the breaker is the same for all.
        _handling(chain, summarization),
        # As above; it begins with what the thread has found.
        *([DeferredToolFilter(chain.tools, chain.deferred)] if chain.deferred is not None else []),
        # As above; the lists of the skills that the lead agent follows bind it too.
        *([SkillTools()] if shared.skills is not None else []),
        # As above, but nobody can be asked from within a subagent: what would need that is not done.
        _guardrail(chain),
        # What a subagent runs is checked and logged like what the lead agent runs.
        *([SandboxAudit(shared.audit, shared.clock)] if shared.sandbox is not None else []),
        # With keys of its own: after a crash the lead agent's call of `task` is interrupted, nothing in it runs again.
        EffectGuard(shared.effects),
        # Inside the guard, as above.
        ToolErrorHandling(),
        # As above: subagents read even more.
        ToolOutputBudget(),
        # Inside the budget, as above: what is foreign to the lead agent is to its subagents.
        *([ForeignResults()] if chain.has_foreign_tools else []),
        # Nearest to the tool: what it looks for addresses is the whole result.
        *([OnlyKnown(shared.sources)] if chain.only_known else []),
        *([CitedFiles(shared.sources, shared.clock)] if chain.cites_files else []),
        # Inside the error handling, as above; of the pictures that it asked for itself.
        *([ViewImage()] if chain.views_images else []),
        # As above; the turn is the whole task.
        LoopDetection(shared.loop),
        # Tells the subagent's watch, which lets through what counts for the run.
        RunReport(chain.settings.name),
        # As above; they stand below the call that delegates.
        *([Traced(shared.tracing, chain.settings.name)] if shared.tracing is not None else []),
        # As above: what its run may still spend.
        *([BudgetStop(shared.budget, chain.settings.name)] if shared.budget is not None else []),
        # Innermost: its own count, up to the kind's max_turns.
        SubagentCallLimit(shared.ledger, chain.limit),
        # As above.
        *_sightless(chain),
        # As above; a subagent's calls are counted in no commit that would be refused.
        StillHere(shared.may_act),
    ]


class Layers(AgentMiddleware[Any, Any, Any]):
    """The `wrap_*` hooks of a chain as those of one middleware.

    LangChain surrounds the hook of each middleware with LangSmith's tracing, which costs as much as the hook itself
    even where nothing is traced.
    """

    def __init__(self, chain: Sequence[AgentMiddleware[Any, Any, Any]]) -> None:
        super().__init__()
        plain = AgentMiddleware
        around_model = [each for each in chain if type(each).awrap_model_call is not plain.awrap_model_call]
        around_tool = [each for each in chain if type(each).awrap_tool_call is not plain.awrap_tool_call]
        self._around_model = [each.awrap_model_call for each in reversed(around_model)]
        self._around_tool = [each.awrap_tool_call for each in reversed(around_tool)]

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        call: Any = handler
        for hook in self._around_model:
            call = partial(hook, handler=call)
        response: ModelResponse[Any] = await call(request)
        return response

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        call: Any = handler
        for hook in self._around_tool:
            call = partial(hook, handler=call)
        result: ToolMessage | Command[Any] = await call(request)
        return result


def layered(chain: Sequence[AgentMiddleware[Any, Any, Any]]) -> list[AgentMiddleware[Any, Any, Any]]:
    """A chain as `create_agent` is to be given it: its layers as one, and what has a node hook besides."""
    return [Layers(chain), *(each for each in chain if isinstance(each, Summarization))]
