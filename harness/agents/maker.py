"""Builds agents: the tools, the prompt and the middleware chain of one definition around a model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import langsmith
from langchain.agents import create_agent

from harness.agents.tools import sandbox_tools
from harness.errors import ModelFailure, ModelSetupError
from harness.events import FailureKind
from harness.graph.calls import TASK
from harness.graph.signals import RunScope
from harness.graph.state import ThreadState
from harness.mcp.config import LEAD
from harness.mcp.offering import given_names, offering
from harness.middleware import ChainParts, layered, middleware_chain
from harness.prompt import Abilities, sections
from harness.research.tool import record_tool
from harness.skills.prompt import SLOT
from harness.subagents.config import INHERIT
from harness.subagents.kinds import SANDBOX_TOOLS, delegation_section, subagent_kinds, subagent_prompt
from harness.subagents.pool import SubagentPool, Worker
from harness.subagents.tool import task_tool
from harness.tools.asking import ask_tool
from harness.tools.files import READ
from harness.tools.planning import planning_tool
from harness.tools.presenting import PRESENT

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable, Collection, Mapping, Sequence

    from langchain_core.tools import BaseTool
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from harness.agents.parts import Parts
    from harness.agents.profiles import AgentDefinition
    from harness.config import ModelSettings
    from harness.files.slots import FairSlots
    from harness.graph.state import Graph
    from harness.mcp.offering import Offering
    from harness.middleware.skills import PromptSlots
    from harness.middleware.summarization import Summarization
    from harness.models.build import BuiltModel
    from harness.models.pool import ModelPool
    from harness.prompt import Section
    from harness.research.config import ResearchParts
    from harness.skills.tool import SkillManaging
    from harness.subagents.config import SubagentsSettings
    from harness.subagents.kinds import Kind


@dataclass(frozen=True, slots=True)
class Agent:
    """The graph of one agent with one model, and its summarization for `compact`. revision: of the MCP servers' tools
    in the graph. sections: of the system prompt; `slots` fills their placeholders. tools: all of the agent's tools.
    research: returns the research graph, built on first use, which takes 0.1 s; None if research is not available."""

    settings: ModelSettings
    model: BuiltModel
    graph: Graph
    summarization: Summarization
    revision: int
    sections: Sequence[Section]
    slots: PromptSlots
    tools: Sequence[BaseTool]
    research: Callable[[], Graph] | None = None

    def prompt(self, scope: RunScope) -> list[Section]:
        """The sections of the system prompt as a run sees them."""
        filled = (section._replace(text=self.slots.filled(section.text, scope)) for section in self.sections)
        return [section for section in filled if section.text]


class AgentMaker:
    """Builds the agents of one definition. parts: those that the definition has. slots: of the process's subagents."""

    def __init__(
        self,
        definition: AgentDefinition,
        parts: Parts,
        models: ModelPool,
        slots: FairSlots,
        saver: BaseCheckpointSaver[str],
    ) -> None:
        self._definition = definition
        self._parts = parts
        if parts.subagents is not None and not self._kinds(parts.subagents):
            self._parts = replace(parts, subagents=None)  # no kind is left to delegate to
        self._models = models
        self._manager = _skill_manager(self._parts, models)
        self._slots = slots
        self._saver = saver

    def make(self, settings: ModelSettings, revision: int) -> Agent:
        """Build the agent with this model. Raises ModelSetupError."""
        parts = self._parts
        model = self._models.built(settings.name)
        tools, remote = self._tools_and_offering(settings, LEAD)
        research = self._research(parts.research, settings, [tool.name for tool in tools])
        if parts.subagents is not None:
            kinds = self._kinds(parts.subagents)
            tools.append(task_tool(self._pool(kinds, settings.name, [tool.name for tool in tools])))
        chain = self._chain(settings, model, tools, remote.deferred)
        parts_of_prompt = self._sections(settings, remote, chain.tools)
        prompt = "\n".join(section.text for section in parts_of_prompt)
        graph = make_lead_agent(chain, prompt=prompt, tools=tools, saver=self._saver)
        shortening, slots = chain.summarization(), chain.slots
        return Agent(settings, model, graph, shortening, revision, parts_of_prompt, slots, tools, research)

    def _research(
        self, research: ResearchParts | None, settings: ModelSettings, tools: Collection[str]
    ) -> Callable[[], Graph] | None:
        """A function that builds, once, the research graph of the lead agent with this model and these tools."""
        if research is None:
            return None

        @cache
        def made() -> Graph:
            # Imported here, not at the top: most gateways run for days without a research.
            from harness.agents.research import ResearchTeam, research_kinds
            from harness.research.graph import make_research

            own = [TASK, *(tool.name for tool in self._tools(settings))]
            given = partial(given_names, self._parts.servers, own, self._definition.settings.mcp_servers)
            only_known = self._parts.extras.web.fetch.only_known
            kinds = research_kinds(research.settings, tools, given, only_known=only_known)
            pool = self._pool(kinds, settings.name, tools)
            model_of = partial(self._model_of, settings.name)
            team = ResearchTeam(pool, tools, given, model_of, self._parts.spool, self._parts.gone)
            return make_research(team, research, self._parts.sources, self._saver)

        return made

    def _chain(
        self, settings: ModelSettings, model: BuiltModel, tools: Sequence[BaseTool], deferred: Sequence[str] | None
    ) -> ChainParts:
        delegated = self._parts.subagents
        return ChainParts(
            parts=self._parts,
            model=model.chat,
            settings=settings,
            breaker=self._models.breaker(settings.name),
            proposing={} if self._manager is None else {self._manager.tool.name: self._manager.proposing},
            tools=[tool.name for tool in tools],
            deferred=deferred,
            delegates=delegated.per_run if delegated is not None else None,
            fallbacks=self._models.standbys(settings.name),
        )

    def _tools_and_offering(self, settings: ModelSettings, agent: str) -> tuple[list[BaseTool], Offering]:
        """All tools except `task`, including this agent's tools from MCP servers."""
        parts, tools = self._parts, self._tools(settings)
        taken = [TASK, *(tool.name for tool in tools)]
        remote = offering(
            parts.servers,
            parts.tool_search,
            taken,
            agent,
            only=self._definition.settings.mcp_servers,
            sees_images=settings.supports_vision,
        )
        return [*tools, *remote.tools], remote

    def _pool(self, kinds: Mapping[str, Kind], lead: str, tools: Collection[str]) -> SubagentPool:
        """These subagents of the lead agent with that model and these tools."""

        def build(kind: Kind) -> Worker:
            settings = self._model_of(lead, kind)
            try:
                return self._worker(kind, settings, tools)
            except ModelSetupError as error:
                raise ModelFailure(FailureKind.NOT_FOUND, model=settings.name, detail=str(error)) from error

        return SubagentPool(kinds, build, self._slots, self._parts.clock)

    def _model_of(self, lead: str, kind: Kind) -> ModelSettings:
        """The model of a kind. Raises ModelFailure if it does not exist."""
        return self._models.settings(lead if kind.model == INHERIT else kind.model)

    def _kinds(self, subagents: SubagentsSettings) -> dict[str, Kind]:
        """The available kinds that the definition names."""
        sandbox, wanted = self._parts.sandbox, self._definition.settings.subagents
        kinds = subagent_kinds(subagents, bash=sandbox is not None and sandbox.report.bash)
        return {name: kind for name, kind in kinds.items() if wanted is True or name in (wanted or ())}

    def _worker(self, kind: Kind, settings: ModelSettings, most: Collection[str]) -> Worker:
        """Build a subagent. most: the lead agent's tools; its subagents have others only through an operator's
        add_to_agents. Raises ModelSetupError."""
        parts, model = self._parts, self._models.built(settings.name)
        offered, remote = self._tools_and_offering(settings, kind.name)
        has = {tool.name for tool in offered if tool.name in most and kind.allows(tool.name)}
        has |= remote.given - kind.disallowed
        tools = [tool for tool in offered if tool.name in has]
        names = {tool.name for tool in tools}
        named = kind.tools is not None  # tools chosen by name need not be searched for
        deferred = remote.deferred if remote.deferred is None or not named else ()
        chain = self._chain(settings, model, tools, deferred)
        reads = READ in names and kind.skills != ()
        chain = replace(
            chain,
            model_call_limit=kind.max_turns,
            delegates=None,
            only_skills=kind.skills,
            only_known=kind.only_known,
            cites_files=kind.cites_files,
        )
        prompt = subagent_prompt(
            kind,
            Abilities(
                tools=frozenset(names - {PRESENT}),
                report=parts.sandbox.report if parts.sandbox is not None and names & SANDBOX_TOOLS else None,
                outside=parts.outside or bool(remote.section),
            ),
            servers="" if named else remote.section,
            skills=SLOT if parts.skills is not None and reads else "",
        )
        return Worker(make_subagent(chain, prompt=prompt, tools=tools), settings.name)

    def _tools(self, settings: ModelSettings) -> list[BaseTool]:
        parts, sees = self._parts, settings.supports_vision
        planning = [planning_tool()] if self._definition.settings.features.planning else []
        planning += [record_tool(parts.sources)] if parts.research is not None else []
        if parts.sandbox is None:
            return [ask_tool(), *planning, *parts.tools]
        own = sandbox_tools(parts.sandbox, spool=parts.spool, sees_images=sees, clock=parts.clock)
        managing = [self._manager.tool] if self._manager is not None else []
        return [ask_tool(), *planning, *own, *managing, *parts.tools]

    def _sections(self, settings: ModelSettings, remote: Offering, tools: Sequence[str]) -> list[Section]:
        """The system prompt of the lead agent. tools: the names of all its tools."""
        parts = self._parts
        abilities = Abilities(
            tools=frozenset(tools),
            report=parts.sandbox.report if parts.sandbox is not None else None,
            sees=settings.supports_vision,
            outside=parts.outside or bool(remote.section),
            remembers=parts.remembering is not None,
        )
        return sections(
            abilities,
            servers=remote.section,
            delegation=delegation_section(parts.subagents.per_run) if parts.subagents is not None else "",
            soul=self._definition.soul,
            skills=SLOT if parts.skills is not None else "",
        )


def _skill_manager(parts: Parts, models: ModelPool) -> SkillManaging | None:
    """The tool that changes skills; None if the agent may not change any."""
    editing = parts.skills.editing if parts.skills is not None else None
    if editing is None:
        return None
    # Imported here, not at the top: few installations let their agents write skills.
    from harness.skills.tool import skill_managing

    return skill_managing(editing, models, parts.clock, parts.health)


async def _without_thread(
    default: object, context: contextvars.Context, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    return context.run(function, *args, **kwargs)


# create_agent wraps a middleware in langsmith's tracing, which hops through a thread and a task around each call even
# when tracing is off: model calls would wait for the thread pool.
langsmith.set_runtime_overrides(aio_to_thread=_without_thread)


def make_lead_agent(
    parts: ChainParts, *, prompt: str, tools: Sequence[BaseTool], saver: BaseCheckpointSaver[Any]
) -> Graph:
    """The compiled graph of the lead agent for one model."""
    return create_agent(
        parts.model,
        tools=list(tools),
        system_prompt=prompt,
        middleware=layered(middleware_chain(parts)),
        state_schema=ThreadState,
        context_schema=RunScope,
        checkpointer=saver,
    )


def make_subagent(parts: ChainParts, *, prompt: str, tools: Sequence[BaseTool]) -> Graph:
    """The compiled graph of one kind of subagent for one model. No checkpoints: a subagent lives for one task."""
    return create_agent(
        parts.model,
        tools=list(tools),
        system_prompt=prompt,
        middleware=layered(middleware_chain(parts, lead=False)),
        state_schema=ThreadState,
        context_schema=RunScope,
    )
