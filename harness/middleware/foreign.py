"""ForeignResults: what a tool says that is not ours is data; it stands in a block that it cannot open or close."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage

from harness.tools.web_results import outside

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import ToolCallRequest
    from langchain_core.tools import BaseTool
    from langgraph.types import Command

FOREIGN = "foreign"
"""Metadata key of a tool whose results are framed: the operator's own, and whatever else was not written here."""


def is_foreign(tool: BaseTool | None) -> bool:
    """Whether what a tool says is not ours."""
    return bool(((tool.metadata if tool is not None else None) or {}).get(FOREIGN))


class ForeignResults(AgentMiddleware[Any, Any, Any]):
    """Changes texts, alone or among other parts; pictures stay as they are.

    An artifact goes: it could be no JSON, which the thread is, or say what only our own tools' artifacts say.
    """

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        result = await handler(request)
        if not isinstance(result, ToolMessage) or not is_foreign(request.tool):
            return result
        return result.model_copy(update={"content": _framed(result.content), "artifact": None})


def _framed(content: Any) -> Any:
    if isinstance(content, str):
        return outside(content)
    return [
        outside(part)
        if isinstance(part, str)
        else {**part, "text": outside(str(part.get("text", "")))}
        if part.get("type") == "text"
        else part
        for part in content
    ]
