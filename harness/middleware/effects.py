"""EffectGuard: a tool call happens at most once, also across a crash; RunReport: reports each call to the runner;
StillHere: no model call for a run that another process has taken over.

RunReport is inside EffectGuard: only real calls are reported, and a result from the record emits no event.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, ToolMessage

from harness.events import ToolEnded, ToolStarted
from harness.graph.calls import IDEMPOTENT, call_place, interrupted_result
from harness.graph.messages import next_message_id, stored_form, usage_event
from harness.graph.signals import CallEnded, CallStarted, Told, scope_of, tell
from harness.ports import EffectKey
from harness.text.plain import described, summary

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import ModelRequest, ModelResponse, ToolCallRequest

    from harness.graph.calls import ModelHandler, ToolHandler, ToolResult
    from harness.ports import EffectLog


log = logging.getLogger(__name__)

NOT_KEPT = "The call was made, but its result cannot be stored. Check the current state before you repeat it."


class RunReport(AgentMiddleware[Any, Any, Any]):
    """Reports each model and tool call to the runner, and gives messages their final form. model: its name in the
    config, for Usage."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self._model = model

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
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

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        call, ok = request.tool_call, False
        call_id, name = call["id"] or "", call["name"]
        told, own = summary(name, call["args"]), described(name, call["args"])
        started = partial(ToolStarted, call_id=call_id, tool=name, summary=told, description=own)
        tell(request.runtime, Told(started))
        try:
            result = await handler(request)
            ok = not (isinstance(result, ToolMessage) and result.status == "error")
            return result
        finally:
            tell(request.runtime, Told(partial(ToolEnded, call_id=call_id, tool=name, ok=ok)))


class StillHere(AgentMiddleware[Any, Any, Any]):
    """Ensures before a model call that this process owns the run: see Parts.may_act. Tools: see `EffectLog.begin`."""

    def __init__(self, may_act: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._may_act = may_act

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        await self._may_act()
        return await handler(request)


class EffectGuard(AgentMiddleware[Any, Any, Any]):
    """Records `started` before and `done` with the result after each call, and trusts the record."""

    def __init__(self, effects: EffectLog) -> None:
        super().__init__()
        self._effects = effects

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        scope = scope_of(request.runtime)
        await scope.settled()
        ctx = scope.ctx
        key = EffectKey(thread_id=ctx.thread_id, run_id=ctx.run_id, call_id=call_place(request))
        known = await self._effects.begin(key, request.tool_call["name"])
        if known is not None and known.state == "done":
            return ToolMessage.model_validate_json(known.result)
        if known is not None and not _is_idempotent(request):
            return interrupted_result(request.tool_call)
        result = await handler(request)
        # A Command cannot be stored as JSON: it stays `started`, so after a crash its outcome counts as unknown.
        if isinstance(result, ToolMessage):
            result, record = _recordable(result)
            await self._effects.done(key, record)
        return result


def _recordable(result: ToolMessage) -> tuple[ToolMessage, str]:
    """A storable result, and its JSON. The thread is stored as JSON too: an artifact that is not JSON is dropped, and
    if that is not enough the model is told what happened to the result."""
    try:
        return result, result.model_dump_json()
    except ValueError as error:
        log.error("the tool %s returned a result that cannot be stored as it is: %s", result.name, type(error).__name__)
    without = result.model_copy(update={"artifact": None})
    try:
        return without, without.model_dump_json()
    except ValueError:
        lost = ToolMessage(NOT_KEPT, tool_call_id=result.tool_call_id, name=result.name, status="error")
        return lost, lost.model_dump_json()


def _is_idempotent(request: ToolCallRequest) -> bool:
    metadata = request.tool.metadata if request.tool is not None else None
    return bool((metadata or {}).get(IDEMPOTENT))
