"""Clarification: an answer that asks the person asks one thing and does nothing else, so the turn ends behind it.

Only then does the graph's own edge end the turn: after a round of nothing but `return_direct` tools. Innermost, so that
all others see the answer as it will be kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage

from harness.graph.calls import ASK
from harness.tools.asking import MOST_OPTIONS, asked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain.agents.middleware import ModelRequest, ModelResponse
    from langchain_core.messages import ToolCall


class Clarification(AgentMiddleware[Any, Any, Any]):
    """Of several questions the first is kept; a call that asks nothing is taken out, as if it had not been made."""

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        response = await handler(request)
        if not any(isinstance(message, AIMessage) and _asks(message) for message in response.result):
            return response
        return replace(response, result=[_only_the_question(message) for message in response.result])


def _asks(message: AIMessage) -> bool:
    return any(call["name"] == ASK for call in message.tool_calls)


def _only_the_question(message: Any) -> Any:
    if not isinstance(message, AIMessage) or not _asks(message):
        return message
    kept = _kept(message.tool_calls)
    update: dict[str, Any] = {"tool_calls": kept, "invalid_tool_calls": []}
    if isinstance(message.content, list):  # providers that have their calls among the content's blocks too
        ids = {call["id"] for call in kept}
        update["content"] = [block for block in message.content if _call_id(block) in (None, *ids)]
    return message.model_copy(update=update)


def _kept(calls: Sequence[ToolCall]) -> list[ToolCall]:
    question = next((call for call in calls if call["name"] == ASK and asked(call["args"]) is not None), None)
    if question is None:
        return [call for call in calls if call["name"] != ASK]
    return [{**question, "args": _arguments(question["args"])}]


def _arguments(args: dict[str, Any]) -> dict[str, Any]:
    """What the tool takes for sure: what it refused would end the turn without a question."""
    shown = asked(args)
    options = list(shown.options[:MOST_OPTIONS]) if shown is not None else []
    question = args.get("question")
    context = args.get("context")
    fit = {"question": question if isinstance(question, str) else "", "options": options or None}
    return fit | ({"context": context} if isinstance(context, str) and context else {})


def _call_id(block: Any) -> str | None:
    """Of a block that is a call."""
    is_call = isinstance(block, dict) and block.get("type") in ("tool_use", "tool_call", "function_call")
    return str(block.get("call_id") or block.get("id")) if is_call else None
