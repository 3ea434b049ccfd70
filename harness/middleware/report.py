"""RunReport: tells the runner of each model call and tool call, and gives messages their final form.

Inside EffectGuard: only calls that really happen are told, so a result from the record makes no events.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, ToolMessage

from harness.events import ToolEnded, ToolStarted, Usage
from harness.graph.messages import next_message_id, stored_form
from harness.graph.signals import CallEnded, CallStarted, Told, scope_of, tell
from harness.text.lines import summary

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import ModelRequest, ModelResponse, ToolCallRequest
    from langchain_core.messages.ai import UsageMetadata
    from langgraph.types import Command


MOST_TOKENS = 1_000_000_000
"""Of one call. A server may count anything; what no database can hold would leave a run without an end."""


class RunReport(AgentMiddleware[Any, Any, Any]):
    """model: the name from the config of the one that was asked for, for Usage."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self._model = model

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        runtime, scope = request.runtime, scope_of(request.runtime)
        message_id = next_message_id(scope.ctx.run_id, request.state["messages"])
        tell(runtime, CallStarted(message_id))
        response = await handler(request)
        result = [stored_form(message, message_id, request.messages) for message in response.result]
        for message in result:
            if isinstance(message, AIMessage):
                if message.usage_metadata is not None:
                    tell(runtime, Told(usage_event(scope.answering.model or self._model, message.usage_metadata)))
                tell(runtime, CallEnded(message))
        return replace(response, result=result)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        call, ok = request.tool_call, False
        call_id, name = call["id"] or "", call["name"]
        tell(
            request.runtime, Told(partial(ToolStarted, call_id=call_id, tool=name, summary=summary(name, call["args"])))
        )
        try:
            result = await handler(request)
            ok = not (isinstance(result, ToolMessage) and result.status == "error")
            return result
        finally:
            tell(request.runtime, Told(partial(ToolEnded, call_id=call_id, tool=name, ok=ok)))


def usage_event(model: str, usage: UsageMetadata) -> Callable[..., Usage]:
    """Usage without run_id and seq."""
    cached = (usage.get("input_token_details") or {}).get("cache_read") or 0
    return partial(
        Usage,
        model=model,
        input_tokens=believed(usage["input_tokens"]),
        output_tokens=believed(usage["output_tokens"]),
        cached_tokens=believed(cached),
    )


def believed(tokens: int) -> int:
    """A provider's count, as far as it can be one: else a negative one would pay budgets back."""
    return min(max(tokens, 0), MOST_TOKENS)
