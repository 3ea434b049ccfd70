"""DanglingToolCall: every request has each tool call answered right after it, as strict providers demand.

The settle step makes broken histories rare; this is for what slips through (a rewind, a summary, a provider's quirk).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from harness.graph.calls import interrupted_result

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import ModelRequest, ModelResponse


class DanglingToolCall(AgentMiddleware[Any, Any, Any]):
    """Unanswered calls get a synthetic result, orphaned and doubled results are dropped; the state stays as it is."""

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        paired = pair_tool_calls(request.messages)
        return await handler(request if paired is request.messages else request.override(messages=paired))


def pair_tool_calls(messages: list[AnyMessage]) -> list[AnyMessage]:
    """The messages with every call followed by exactly one result; the same list when nothing is to do."""
    if not any(isinstance(m, ToolMessage) or (isinstance(m, AIMessage) and m.tool_calls) for m in messages):
        return messages
    paired: list[AnyMessage] = []
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue  # taken along with its call
        paired.append(message)
        if isinstance(message, AIMessage) and message.tool_calls:
            results = _results_after(messages, place)
            paired += [results.get(call["id"] or "") or interrupted_result(call) for call in message.tool_calls]
    return messages if _same(paired, messages) else paired


def _results_after(messages: list[AnyMessage], place: int) -> dict[str, ToolMessage]:
    """The results between this assistant message and the next one, the newest for each call."""
    results: dict[str, ToolMessage] = {}
    for message in messages[place + 1 :]:
        if isinstance(message, AIMessage):
            break
        if isinstance(message, ToolMessage):
            results[message.tool_call_id] = message
    return results


def _same(left: list[AnyMessage], right: list[AnyMessage]) -> bool:
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))
