"""DeferredToolFilter: tools of MCP servers stay out of requests until the thread has found them with tool_search."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from harness.graph.state import PROMOTED
from harness.text.frames import neutral

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain.agents.middleware import ModelRequest, ModelResponse, ToolCallRequest
    from langgraph.types import Command

LONGEST_NAME = 64
NOT_LOADED = (
    "{name} is not loaded, so nothing happened. Call tool_search with select:{name} first; then call it with the "
    "arguments that its schema asks for."
)
MISSING = (
    "There is no tool {name} now, so nothing happened: a server that had it has changed, or it never was.{near} If "
    "nothing else can do it, tell the person."
)


class DeferredToolFilter(AgentMiddleware[Any, Any, Any]):
    """names: of all tools of the graph. deferred: those that have to be found first.

    A run that goes on after a restart may ask for a tool that is gone; that gets an answer too.
    """

    def __init__(self, names: Sequence[str], deferred: Sequence[str]) -> None:
        super().__init__()
        self._names = tuple(names)
        self._deferred = frozenset(deferred)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        hidden = self._deferred - _promoted(request.state)
        if hidden:
            tools = [each for each in request.tools if not (isinstance(each, BaseTool) and each.name in hidden)]
            request = request.override(tools=tools)
        return await handler(request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        name = request.tool_call["name"]
        if request.tool is None:
            return _refusal(request, MISSING.format(name=_short(name), near=self._near(name)))
        if name in self._deferred - _promoted(request.state):
            return _refusal(request, NOT_LOADED.format(name=name))
        return await handler(request)

    def _near(self, name: str) -> str:
        alike = get_close_matches(_short(name), self._names, n=3)
        return f" Did you mean {' or '.join(alike)}?" if alike else ""


def _promoted(state: Any) -> frozenset[str]:
    return frozenset(state.get(PROMOTED) or ())


def _short(name: str) -> str:
    return neutral(" ".join(name.split()))[:LONGEST_NAME]


def _refusal(request: ToolCallRequest, text: str) -> ToolMessage:
    call = request.tool_call
    return ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"], status="error")
