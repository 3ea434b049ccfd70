"""The parts that agents are built from: the gateway fills one object, and each agent receives its share. Light to
import."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.config import LlmSettings, LoopSettings, SummarizationSettings
from harness.guardrails.rules import Guarding, load_guardrails
from harness.mcp.config import ToolSearchSettings
from harness.models.health import ModelHealth
from harness.ports import MemoryAuditLog
from harness.web.config import WebSettings
from harness.web.sources import MemorySources
from sandbox.base import direct

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from langchain_core.tools import BaseTool

    from harness.acp.config import AcpAgentSettings
    from harness.agents.profiles import AgentDefinition
    from harness.config import ModelSettings, ToolSettings
    from harness.files.spool import Spool
    from harness.graph.sandbox import SandboxSetup
    from harness.knowledge.port import KnowledgeBase
    from harness.mcp.offering import Servers
    from harness.media.config import ImageSettings, SpeechSettings
    from harness.memory.store import Remembering
    from harness.ports import AuditLog, Budget, Clock, EffectLog, Fence, RunLedger, Steering, Tracing
    from harness.research.config import ResearchParts
    from harness.scheduling.schedules import Scheduling
    from harness.skills.library import SkillSource
    from harness.subagents.config import SubagentsSettings
    from harness.web.sources import Sources
    from sandbox.base import Route

NO_WEB = WebSettings()


async def _at_once() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraSettings:
    """Settings of optional tools. images, speech: of the generating services; None without one. acp_agents: by name.
    groups: of `tools` to load; all if empty. route: how to reach a URL: (proxy or None for direct, CA file)."""

    web: WebSettings = NO_WEB
    images: ImageSettings | None = None
    speech: SpeechSettings | None = None
    acp_agents: Mapping[str, AcpAgentSettings] = field(default_factory=dict)
    tools: tuple[ToolSettings, ...] = ()
    groups: tuple[str, ...] = ()
    route: Callable[[str], Route] = direct


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What all agents of a process share: sections of the settings, then objects of the gateway.

    models: the first one is the default. subagents: None: no delegation. extras: the web, and the operator's own tools.
    definitions: agents by name; empty: only the plain one.

    route: a model's name -> (proxy, CA file). budget: None: none is set. guarding: decides on tool calls. sandbox:
    None: agents have no files and run no commands. audit: of the commands. spool: keeps files for the person until they
    are delivered; None: files cannot be sent. servers: MCP servers whose tools agents also have, started and closed by
    the caller. scheduling: None: nothing can be scheduled. skills: None: no skills, as without a sandbox. remembering:
    None: no memory. steering: messages for running runs; None: none. health: receives the outcome of model calls.
    tracing: None: no tracing. sources: keep what runs have read on the web. research: None: no research. knowledge:
    None: no collections. leads: whether this process may write the threads. fence: None: no other process writes them.

    may_act: awaited right before each model call; waits until no other process can have taken over the runs of this
    one. tools: further ones; once loaded (agents/tools.py), all but those of the sandbox. outside: some of them return
    text written by strangers. gone: (address, speaker id) -> why a page does not answer now; None if not requested.
    """

    models: Sequence[ModelSettings]
    summarization: SummarizationSettings = field(default_factory=SummarizationSettings)
    llm: LlmSettings = field(default_factory=LlmSettings)
    loop: LoopSettings = field(default_factory=LoopSettings)
    model_call_limit: int = 100
    tool_search: ToolSearchSettings = field(default_factory=ToolSearchSettings)
    subagents: SubagentsSettings | None = None
    extras: ExtraSettings = field(default_factory=ExtraSettings)
    definitions: Mapping[str, AgentDefinition] = field(default_factory=dict)

    effects: EffectLog
    ledger: RunLedger
    clock: Clock
    route: Callable[[str], Route]
    budget: Budget | None = None
    guarding: Guarding = field(default_factory=load_guardrails)
    sandbox: SandboxSetup | None = None
    audit: AuditLog = field(default_factory=MemoryAuditLog)
    spool: Spool | None = None
    servers: Servers | None = None
    scheduling: Scheduling | None = None
    skills: SkillSource | None = None
    remembering: Remembering | None = None
    steering: Steering | None = None
    health: ModelHealth = field(default_factory=ModelHealth)
    tracing: Tracing | None = None
    sources: Sources = field(default_factory=MemorySources)
    research: ResearchParts | None = None
    knowledge: KnowledgeBase | None = None
    leads: Callable[[], bool] = lambda: True
    fence: Fence | None = None
    may_act: Callable[[], Awaitable[None]] = _at_once
    tools: Sequence[BaseTool] = ()
    outside: bool = False
    gone: Callable[[str, str], Awaitable[str | None]] | None = None
