"""EffectGuard: a tool call happens at most once, also across a crash."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage

from harness.graph.calls import (
    IDEMPOTENT,
    call_place,
    interrupted_result,
)
from harness.graph.signals import scope_of
from harness.ports import EffectKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import ToolCallRequest
    from langgraph.types import Command

    from harness.ports import EffectLog

log = logging.getLogger(__name__)


NOT_KEPT = (
    "The call was made, and its result was nothing that can be kept. Look at the state of things before you repeat it."
)


class EffectGuard(AgentMiddleware[Any, Any, Any]):
    """Records `started` before and `done` with the result after each call, and believes the record."""

    def __init__(self, effects: EffectLog) -> None:
        super().__init__()
        self._effects = effects

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        ctx = scope_of(request.runtime).ctx
        key = EffectKey(thread_id=ctx.thread_id, run_id=ctx.run_id, call_id=call_place(request))
        known = await self._effects.begin(key, request.tool_call["name"])
        if known is not None and known.state == "done":
            return ToolMessage.model_validate_json(known.result)
        if known is not None and not _is_idempotent(request):
            return interrupted_result(request.tool_call)
        result = await handler(request)
        # A Command cannot be kept as JSON: it stays `started`, so after a crash its outcome counts as unknown.
        if isinstance(result, ToolMessage):
            result, record = _recordable(result)
            await self._effects.done(key, record)
        return result


def _recordable(result: ToolMessage) -> tuple[ToolMessage, str]:
    """A result that can be kept, and its JSON. The thread keeps JSON as well: where it is none the artifact goes, and
    if that is not enough the model is told what became of the result."""
    try:
        return result, result.model_dump_json()
    except ValueError as error:
        log.error("the tool %s gave a result that cannot be kept as it is: %s", result.name, type(error).__name__)
    without = result.model_copy(update={"artifact": None})
    try:
        return without, without.model_dump_json()
    except ValueError:
        lost = ToolMessage(NOT_KEPT, tool_call_id=result.tool_call_id, name=result.name, status="error")
        return lost, lost.model_dump_json()


def _is_idempotent(request: ToolCallRequest) -> bool:
    metadata = request.tool.metadata if request.tool is not None else None
    return bool((metadata or {}).get(IDEMPOTENT))
