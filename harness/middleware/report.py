"""RunReport: tells the runner of each model call and tool call, and gives messages their final form.

Inside EffectGuard: only calls that really happen are told, so a result from the record makes no events.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, ToolMessage

from harness.events import ToolEnded, ToolStarted
from harness.graph.messages import next_message_id, stored_form, usage_event
from harness.graph.signals import CallEnded, CallStarted, Told, scope_of, tell
from harness.text.plain import summary

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import ModelRequest, ModelResponse, ToolCallRequest
    from langgraph.types import Command


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
