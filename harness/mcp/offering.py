"""What one graph has of the servers: tools, which of them are deferred, and the prompt's section; for agents.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from harness.mcp.names import shown_names
from harness.mcp.prompt import servers_section
from harness.mcp.tool_search import search_tool

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from langchain_core.tools import BaseTool
    from mcp.types import CallToolResult

    from harness.mcp.config import ToolSearchSettings
    from harness.mcp.definitions import RemoteTool


class Servers(Protocol):
    """McpPool, as far as the agent needs it."""

    @property
    def revision(self) -> int: ...
    @property
    def tools(self) -> Sequence[RemoteTool]: ...
    async def call(self, tool: RemoteTool, arguments: dict[str, Any]) -> CallToolResult: ...
    async def settled(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Offering:
    """tools: with tool_search where some are deferred. deferred: their names; None where no server is configured."""

    tools: tuple[BaseTool, ...] = ()
    deferred: tuple[str, ...] | None = None
    section: str = ""


def offering(
    servers: Servers | None, search: ToolSearchSettings, own: Collection[str], *, sees_images: bool
) -> Offering:
    """For a graph whose other tools are called `own`."""
    if servers is None:
        return Offering()
    shown = shown_names(servers.tools, own)
    if not shown:
        return Offering(deferred=())
    from harness.mcp.tools import mcp_tools  # the SDK's types: a gateway whose servers are all away does without

    tools = mcp_tools(servers, shown, sees_images=sees_images)
    defers = search.defers(len(tools))
    return Offering(
        tools=(*tools, search_tool(tools)) if defers else tuple(tools),
        deferred=tuple(shown) if defers else (),
        section=servers_section(shown, deferred=defers),
    )
