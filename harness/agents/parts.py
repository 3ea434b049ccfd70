"""What agents are made of: shared by all of them, and cut down to what one of them has; used by agents.py."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from harness.agents.tools import GROUP
from harness.graph.calls import is_foreign
from harness.models.health import ModelHealth

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.tools import BaseTool

    from harness.agents.profiles import AgentDefinition
    from harness.config import LlmSettings, LoopSettings, SummarizationSettings
    from harness.files.spool import Spool
    from harness.graph.sandbox import SandboxSetup
    from harness.guardrails.rules import Guarding
    from harness.mcp.config import ToolSearchSettings
    from harness.mcp.offering import Servers
    from harness.memory.port import Remembering
    from harness.models.build import Route
    from harness.ports import AuditLog, Budget, Clock, EffectLog, RunLedger, Steering
    from harness.sandboxes import SandboxSetup
    from harness.skills.library import SkillSource
    from harness.souls import AgentDefinition
    from harness.spool import Spool
    from harness.skills.source import SkillSource
    from harness.subagents.config import SubagentsSettings

WEB_TOOLS = frozenset({"web_search", "web_fetch"})
MEMORY_TOOLS = frozenset({"remember", "recall"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What all agents share. outside: tools bring what strangers wrote. sandbox: None where there is none; audit: of
    its commands. guarding: of tool calls. spool: None where files cannot be sent. servers: None where none is
    configured. subagents: None: nothing is delegated. budget: None: none is set. skills: None where there are none.
    remembering: None where nothing is remembered. steering: None where nothing is said to a run that works. health: is
    told how calls of models went."""

    summarization: SummarizationSettings
    llm: LlmSettings
    loop: LoopSettings
    model_call_limit: int
    effects: EffectLog
    ledger: RunLedger
    budget: Budget | None
    clock: Clock
    route: Callable[[str], Route]
    tools: Sequence[BaseTool]
    outside: bool
    sandbox: SandboxSetup | None
    audit: AuditLog
    guarding: Guarding
    spool: Spool | None
    servers: Servers | None
    tool_search: ToolSearchSettings
    subagents: SubagentsSettings | None
    skills: SkillSource | None = None
    remembering: Remembering | None = None
    steering: Steering | None = None
    health: ModelHealth = field(default_factory=ModelHealth)


def parts_of(definition: AgentDefinition, parts: Parts) -> Parts:
    """What of the parts this agent has: never more than all agents share."""
    features, settings = definition.settings.features, definition.settings
    tools = [tool for tool in parts.tools if _has(definition, tool)]
    return replace(
        parts,
        tools=tools,
        outside=parts.outside and any(tool.name in WEB_TOOLS or is_foreign(tool) for tool in tools),
        sandbox=parts.sandbox if features.sandbox else None,
        spool=parts.spool if features.sandbox else None,
        servers=parts.servers if features.mcp else None,
        subagents=parts.subagents if settings.subagents else None,
        skills=parts.skills if features.sandbox and settings.skills != () else None,
        remembering=parts.remembering if features.memory else None,
    )


def _has(definition: AgentDefinition, tool: BaseTool) -> bool:
    if tool.name in WEB_TOOLS:
        return definition.settings.features.web
    if tool.name in MEMORY_TOOLS:
        return definition.settings.features.memory
    group, groups = (tool.metadata or {}).get(GROUP), definition.settings.tool_groups
    return group is None or groups is None or group in groups
