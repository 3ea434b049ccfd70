"""The agents' tools: the sandbox's, the web's, and the operator's own from `tools` and `tool_groups`."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from langchain_core.tools import BaseTool

from harness.errors import ToolSetupError, imported
from harness.graph.calls import ASK, FOREIGN, TASK, is_foreign
from harness.memory.telling import memory_tools
from harness.scheduling.tool import schedule_tool
from harness.tools.files import file_tools
from harness.tools.presenting import present_tool, view_tool
from harness.tools.shell import bash_tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.acp.tool import AcpAgents
    from harness.agents.parts import Parts
    from harness.agents.profiles import AgentDefinition
    from harness.config import ToolSettings
    from harness.files.spool import Spool
    from harness.graph.sandbox import SandboxSetup
    from harness.media.tools import Media
    from harness.ports import Clock
    from harness.web.pages import Pages
    from harness.web.tools import Web

log = logging.getLogger(__name__)

WEB_TOOLS = frozenset({"web_search", "web_fetch"})
MEMORY_TOOLS = frozenset({"remember", "recall"})
KNOWLEDGE_SEARCH = "knowledge_search"
OUTSIDE_TOOLS = WEB_TOOLS | {KNOWLEDGE_SEARCH}
"""Antler's tools whose results contain text written by strangers."""
ACP_TOOL = "invoke_acp_agent"
WITH_FILES = frozenset({"make_image", "speak", ACP_TOOL})
"""Other tools that need the sandbox."""
ANTLERS = "the tools of Antler"
GROUP = "antler_group"
"""Metadata key of an operator's tool: the group by which agents refer to it."""
RESERVED = (TASK, ASK)
"""Names of tools that are added when an agent is built."""


class Extras:
    """Loaded tools and their owners. holding: the objects behind some of the tools. tools: with distinct names.
    outside: some return text written by strangers. gone: checks whether a page still answers, see Pages.gone; None: no
    tool reads pages. agents: third-party ones; None if there are none."""

    def __init__(
        self,
        holding: Sequence[Web | Media | AcpAgents],
        tools: Sequence[BaseTool],
        pages: Pages | None,
        agents: AcpAgents | None,
    ) -> None:
        self.tools = tuple(tools)
        self.outside = any(map(_brings_outside, tools))
        self.gone = pages.gone if pages is not None else None
        self.agents = agents
        self._holding = holding

    async def close(self) -> None:
        """Close connections and processes; runs must have ended."""
        for each in self._holding:
            await each.close()


async def load_extras(parts: Parts) -> Extras:
    """All tools except the sandbox's, whose names are reserved too. Raises ToolSetupError."""
    settings, clock = parts.extras, parts.clock
    # All tools that any model may get, so that a clash is reported at startup, not by the first picture.
    own = sandbox_tools(parts.sandbox, spool=parts.spool, sees_images=True, clock=clock) if parts.sandbox else []
    given = [
        *parts.tools,
        *([schedule_tool(parts.scheduling, clock)] if parts.scheduling is not None else []),
        *(memory_tools(parts.remembering, clock) if parts.remembering is not None else []),
    ]
    if parts.knowledge is not None:
        # Imported here, not at the top: it pulls in the module that compares web addresses.
        from harness.knowledge.tool import knowledge_tool

        given.append(knowledge_tool(parts.knowledge, parts.sources, clock))
    loaded = await asyncio.to_thread(configured_tools, settings.tools, settings.groups)
    web = await asyncio.to_thread(_web, parts)
    holding: list[Web | Media | AcpAgents] = [web] if web is not None else []
    try:
        if (media := await asyncio.to_thread(_media, parts)) is not None:
            holding.append(media)
        if (agents := await asyncio.to_thread(_acp, parts)) is not None:
            holding.append(agents)
        placed = [(ANTLERS, tool) for tool in [*own, *(tool for each in holding for tool in each.tools), *given]]
        pages = web.pages if web is not None else None
        return Extras(holding, distinct([*placed, *loaded])[len(own) :], pages, agents)
    except ToolSetupError:
        for each in holding:
            await each.close()
        raise


def _web(parts: Parts) -> Web | None:
    settings = parts.extras
    if not settings.web.is_on:
        return None
    # Imported here, not at the top: it pulls in an HTTP client, which an agent without the web does not need.
    from harness.web.tools import Web

    hosts = parts.sandbox.report.hosts if parts.sandbox is not None else ()
    return Web(settings.web, settings.route, clock=parts.clock, sources=parts.sources, hosts=hosts)


def _media(parts: Parts) -> Media | None:
    """Tools that generate images and speech. They write files of the thread, so they need a sandbox."""
    settings = parts.extras
    if parts.sandbox is None or parts.spool is None or (settings.images is None and settings.speech is None):
        return None
    # Imported here, not at the top: it pulls in OpenAI's client.
    from harness.media.tools import Media

    return Media(
        settings.images, settings.speech, settings.route, spool=parts.spool, budget=parts.budget, clock=parts.clock
    )


def _acp(parts: Parts) -> AcpAgents | None:
    """Third-party agents, which run as sandbox commands. Raises ToolSetupError if the protocol's package is missing."""
    agents = parts.extras.acp_agents
    if not agents:
        return None
    try:
        from harness.acp.tool import AcpAgents  # needs the package of an extra
    except ImportError as error:
        raise ToolSetupError(f"acp_agents: {error.name} is not installed; pip install 'antler[acp]'") from error
    if parts.sandbox is None or not parts.sandbox.report.bash or parts.spool is None:
        log.warning("acp_agents: the sandbox runs no commands here, so %s is not available", ACP_TOOL)
        return None
    return AcpAgents(agents, parts.sandbox, spool=parts.spool, approvals=parts.guarding.approvals, clock=parts.clock)


def sandbox_tools(setup: SandboxSetup, *, spool: Spool | None, sees_images: bool, clock: Clock) -> list[BaseTool]:
    """The sandbox's tools: bash only if the provider runs commands, present_files only with a spool, view_image only
    for models with vision."""
    return [
        *([bash_tool(setup, clock)] if setup.report.bash else []),
        *file_tools(),
        *([view_tool()] if sees_images else []),
        *([present_tool(spool)] if spool is not None else []),
    ]


def configured_tools(settings: Sequence[ToolSettings], groups: Sequence[str]) -> list[tuple[str, BaseTool]]:
    """(place in the config, tool) of these groups, or of all if none is named. Imports their modules.

    Raises ToolSetupError, whose text names the key.
    """
    return [
        (f"tools[{number}]", _loaded(f"tools[{number}]", each))
        for number, each in enumerate(settings)
        if not groups or each.group in groups
    ]


def distinct(placed: Iterable[tuple[str, BaseTool]]) -> list[BaseTool]:
    """The tools without their places. Raises ToolSetupError, naming both places, when two have the same name."""
    places = dict.fromkeys(RESERVED, ANTLERS)
    tools = []
    for place, tool in placed:
        if tool.name in places:
            raise ToolSetupError(
                f"{place}: the name {tool.name} is already used by {places[tool.name]}; give one of them another "
                "`name`, or remove it"
            )
        places[tool.name] = place
        tools.append(tool)
    return tools


def _loaded(place: str, settings: ToolSettings) -> BaseTool:
    found = imported(settings.use, f"{place}.use")
    if not isinstance(found, BaseTool):
        raise ToolSetupError(
            f"{place}.use: {settings.use} is not a LangChain tool; decorate a function with langchain_core.tools.tool"
        )
    metadata = {FOREIGN: True, **(found.metadata or {}), GROUP: settings.group}
    changes = {"name": settings.name or found.name, "metadata": metadata}
    return found.model_copy(update=changes)


def parts_of(definition: AgentDefinition, parts: Parts) -> Parts:
    """The parts that this agent has: never more than all agents share."""
    features, settings = definition.settings.features, definition.settings
    tools = [tool for tool in parts.tools if _has(definition, tool)]
    return replace(
        parts,
        tools=tools,
        outside=parts.outside and any(map(_brings_outside, tools)),
        sandbox=parts.sandbox if features.sandbox else None,
        spool=parts.spool if features.sandbox else None,
        servers=parts.servers if features.mcp else None,
        subagents=parts.subagents if settings.subagents else None,
        skills=parts.skills if features.sandbox and settings.skills != () else None,
        remembering=parts.remembering if features.memory else None,
    )


def _brings_outside(tool: BaseTool) -> bool:
    return tool.name in OUTSIDE_TOOLS or is_foreign(tool)


def _has(definition: AgentDefinition, tool: BaseTool) -> bool:
    if tool.name in WEB_TOOLS:
        return definition.settings.features.web
    if tool.name == KNOWLEDGE_SEARCH:
        return definition.settings.features.knowledge
    if tool.name in WITH_FILES:
        return definition.settings.features.sandbox
    if tool.name in MEMORY_TOOLS:
        return bool(definition.settings.features.memory)
    group, groups = (tool.metadata or {}).get(GROUP), definition.settings.tool_groups
    return group is None or groups is None or group in groups
