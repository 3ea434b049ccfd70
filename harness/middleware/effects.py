"""EffectGuard: a tool call happens at most once, also across a crash."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, ToolMessage

from harness.graph.signals import scope_of
from harness.middleware.dangling import interrupted_result
from harness.ports import EffectKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain.agents.middleware import ToolCallRequest
    from langchain_core.messages import BaseMessage, ToolCall
    from langgraph.types import Command

    from harness.ports import EffectLog

log = logging.getLogger(__name__)

NEVER_BEGUN = "This tool call was stopped before it began; nothing happened."

NOT_KEPT = (
    "The call was made, and its result was nothing that can be kept. Look at the state of things before you repeat it."
)

IDEMPOTENT = "idempotent"
"""A tool with metadata {"idempotent": True} may be run again when its outcome is unknown."""


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


def call_place(request: ToolCallRequest) -> str:
    """The call's name within its run."""
    call_id = request.tool_call["id"] or ""
    asking = scope_of(request.runtime).key(asking_message(request.state["messages"], call_id))
    return f"{asking}/{call_id}"


def effect_key(thread_id: str, run_id: str, message_id: str, call_id: str) -> EffectKey:
    """(thread, run, call). Some providers number the calls of each answer anew, so the message's id is a part of it."""
    return EffectKey(thread_id=thread_id, run_id=run_id, call_id=f"{message_id}/{call_id}")


async def recorded_result(effects: EffectLog, key: EffectKey, call: ToolCall) -> ToolMessage:
    """What the log knows of a call that will not be made any more: its result, unknown, or that it never began."""
    known = await effects.begin(key, call["name"])
    if known is None:
        return ToolMessage(NEVER_BEGUN, tool_call_id=call["id"] or "", name=call["name"], status="error")
    if known.state == "done":
        return ToolMessage.model_validate_json(known.result)
    return interrupted_result(call)


def asking_message(messages: Sequence[BaseMessage], call_id: str) -> str:
    """The id of the assistant message that made a call."""
    for message in reversed(messages):
        if isinstance(message, AIMessage) and any(call["id"] == call_id for call in message.tool_calls):
            return message.id or ""
    return ""


def _is_idempotent(request: ToolCallRequest) -> bool:
    metadata = request.tool.metadata if request.tool is not None else None
    return bool((metadata or {}).get(IDEMPOTENT))
