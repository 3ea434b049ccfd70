"""Traced: reports every model and tool call to the tracer."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, ToolMessage, messages_to_dict

from harness.graph.messages import believed
from harness.graph.signals import scope_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain.agents.middleware import ModelRequest, ModelResponse, ToolCallRequest
    from langchain_core.messages import BaseMessage

    from harness.graph.calls import ModelHandler, ToolHandler, ToolResult
    from harness.ports import Tracing


class Traced(AgentMiddleware[Any, Any, Any]):
    """model: its name in the config. A tool's span covers everything that it does, subagents included."""

    def __init__(self, tracing: Tracing, model: str) -> None:
        super().__init__()
        self._tracing = tracing
        self._model = model

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        scope = scope_of(request.runtime)
        name, given = scope.answering.model or self._model, partial(_written, request.messages)
        with self._tracing.call(scope.ctx.run_id, "chat", name, given) as call:
            response = await handler(request)
            used = [each.usage_metadata for each in response.result if isinstance(each, AIMessage)]
            read = sum(believed(usage["input_tokens"]) for usage in used if usage is not None)
            written = sum(believed(usage["output_tokens"]) for usage in used if usage is not None)
            call.answered(partial(_written, response.result), input_tokens=read, output_tokens=written)
            return response

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        made, run_id = request.tool_call, scope_of(request.runtime).ctx.run_id
        given = partial(json.dumps, made["args"], ensure_ascii=False, default=str)
        with self._tracing.call(run_id, "execute_tool", made["name"], given) as call:
            result = await handler(request)
            if isinstance(result, ToolMessage):
                call.answered(partial(_written, [result]), failed=result.status == "error")
            return result


def _written(messages: Sequence[BaseMessage]) -> str:
    return json.dumps(messages_to_dict(messages), ensure_ascii=False, default=str)
