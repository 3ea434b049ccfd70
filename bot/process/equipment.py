"""The equipment of a gateway's or a worker's agent: skills, sandboxes, budgets, schedules, memory, knowledge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bot.agents.profiles import AgentChoices
from bot.control.logs import NAME as AUDIT_LOG
from bot.control.logs import AuditFile
from bot.files.sandboxes import Sandboxes, ThreadOwners, sources_in
from bot.knowledge.keeper import Knowledge
from bot.memory.keeper import make_kept
from bot.memory.service import MemoryParts
from bot.process.agent import Agent, load_harness, make_tracing, research_parts
from bot.runs.approvals import StoreApprovals
from bot.schedule.service import ScheduleService, scheduling
from bot.skills.folders import editing_of
from bot.skills.service import SkillService
from bot.store.run_events import StoreEffectLog, StoreRunLedger
from bot.usage.report import make_spending
from bot.voice.speech_to_text import make_speech_to_text
from channels.registry import channel_class
from harness.agents.parts import ExtraSettings, Parts
from harness.files.spool import FOLDER, Spool, SpoolSettings
from harness.guardrails.rules import load_guardrails
from harness.mcp.pool import McpPool
from harness.models.health import ModelHealth

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bot.inbound.connections import Load
    from bot.process.agent import MakeHarness
    from bot.process.tracing import OtlpTracing
    from bot.redaction import Redactor
    from bot.settings import Settings
    from bot.store.retrying import RetryingStore
    from bot.tasks import Tasks
    from bot.voice.speech_to_text import SpeechToText
    from channels.base import Clock
    from harness.memory.store import MemoryStore
    from harness.ports import Fence, Steering
    from sandbox.files.skills import SkillsOf


def _make_sandboxes(settings: Settings, skills: SkillsOf) -> Sandboxes:
    return Sandboxes(settings.sandbox, settings.data_dir, settings.network_route, skills=skills)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Factories for everything outside the process, as configured; an embedding program may supply its own.

    channel: returns the channel class of a platform, by the platform's name.
    harness: returns the agent factory.
    memories: makes the memory store.
    """

    channel: Load = channel_class
    harness: Callable[[], Awaitable[MakeHarness]] = load_harness
    sandboxes: Callable[[Settings, SkillsOf], Sandboxes] = _make_sandboxes
    skills: Callable[[Settings, AgentChoices, Callable[[str], str | None], Callable[[], bool]], SkillService] = (
        SkillService.of
    )
    hearing: Callable[[Settings, Sandboxes, Clock], SpeechToText] = make_speech_to_text
    memories: Callable[[Settings, RetryingStore], MemoryStore] = make_kept


OUTSIDE = Outside()


class Equipment:
    """The agent of a process and its equipment.

    tasks: run memory's background work. steering: returns the steering of active runs. due: called when a reminder was
    made. has_servers: whether the agent of this process uses the configured MCP servers. leads: whether it may write
    threads now. fence: checked in each transaction that writes them.
    """

    def __init__(
        self,
        settings: Settings,
        store: RetryingStore,
        redact: Redactor,
        tasks: Tasks,
        *,
        steering: Callable[[], Steering],
        due: Callable[[], None],
        has_servers: bool = True,
        leads: Callable[[], bool] = lambda: True,
        fence: Fence | None = None,
        outside: Outside = OUTSIDE,
    ) -> None:
        self._store = store
        self._redact = redact
        self._tasks = tasks
        self._steering = steering
        self._has_servers = has_servers
        self._leads = leads
        self._fence = fence
        self.tracing: OtlpTracing | None = None
        self.models = ModelHealth(store.clock.monotonic)
        self.owners = ThreadOwners()
        self.agents = AgentChoices.of(settings)
        self.spool = settings.data_dir / FOLDER
        self.skills = outside.skills(settings, self.agents, self.owners.of, lambda: self.sandboxes.has_files)
        self.sandboxes = outside.sandboxes(settings, self.skills.folders)
        self.spending = make_spending(store, store.clock, settings.budgets, settings.prices, settings.zone)
        self.schedules = ScheduleService(store, settings.schedules, due)
        self.memory = MemoryParts(
            settings,
            outside.memories(settings, store),
            store,
            self.spending,
            tasks,
            lambda: self.agent.harness(),
            self.agents,
        )
        self.knowledge = Knowledge(settings, store, self.sandboxes, self.spending)
        audit = AuditFile(settings.data_dir / AUDIT_LOG, redact)
        self.agent = Agent(
            settings,
            self.sandboxes,
            self._mcp_servers,
            lambda settings: self._agent_parts(settings, audit, Spool(SpoolSettings(folder=self.spool))),
            self.agents.definitions,
            outside.harness,
        )

    def adopt(self, settings: Settings) -> None:
        """Apply new settings from the next use on. The agent, agent choices and budgets are updated elsewhere."""
        self.skills.adopt(settings)
        self.memory.adopt(settings.memory)
        self._tasks.spawn("knowledge settings", self.knowledge.adopt(settings))
        self.schedules.limits = settings.schedules

    def _mcp_servers(self, settings: Settings) -> McpPool:
        return McpPool(
            settings.mcp_servers if self._has_servers else {},
            folder=settings.data_dir,
            route=settings.network_route,
            clock=self._store.clock,
            learn=self._redact.add,
        )

    def _agent_parts(self, settings: Settings, audit: AuditFile, spool: Spool) -> Parts:
        """The parts of agents for these settings, which may be newer than those at the start."""
        store, budgets, skills = self._store, self.spending.budgets, self.skills.source()
        self.tracing = self.tracing or make_tracing(settings, self._redact)
        return Parts(
            models=settings.models,
            summarization=settings.summarization,
            llm=settings.llm,
            loop=settings.loop,
            model_call_limit=settings.limits.model_calls,
            tool_search=settings.tool_search,
            subagents=settings.subagents,
            extras=ExtraSettings(
                web=settings.web,
                images=settings.images,
                speech=settings.speech,
                acp_agents=settings.acp_agents,
                tools=settings.tools,
                groups=settings.tool_groups,
                route=settings.network_route,
            ),
            effects=StoreEffectLog(store),
            ledger=StoreRunLedger(store, self.spending.meter),
            clock=store.clock,
            route=settings.model_route,
            budget=None if budgets.none else budgets,
            guarding=load_guardrails(settings.guardrails, StoreApprovals(store)),
            audit=audit,
            spool=spool,
            scheduling=scheduling(settings, self.schedules),
            skills=replace(skills, editing=editing_of(settings)),
            remembering=self.memory.remembering(settings.memory),
            steering=self._steering(),
            health=self.models,
            tracing=self.tracing,
            sources=sources_in(settings.data_dir),
            research=research_parts(settings),
            knowledge=self.knowledge if settings.knowledge.enabled else None,
            leads=self._leads,
            fence=self._fence,
            may_act=store.may_act,
        )
