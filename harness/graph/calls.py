"""Tool calls: their names within a run, their recorded results, and the marks on the tools themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from harness.graph.signals import scope_of
from harness.ports import EffectKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain.agents.middleware import ModelRequest, ModelResponse, ToolCallRequest
    from langchain_core.messages import BaseMessage, ToolCall
    from langchain_core.tools import BaseTool
    from langgraph.types import Command

    from harness.graph.results import Runtime
    from harness.ports import EffectLog

    ToolResult = ToolMessage | Command[Any]
    ToolHandler = Callable[[ToolCallRequest], Awaitable[ToolResult]]
    ModelHandler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    """The rest of the chain, which a middleware calls."""


TASK = "task"

ASK = "ask_clarification"

RECORD = "research_record"

OWN_TOOLS = frozenset(
    [
        *("bash", "ls", "glob", "grep", "read_file", "write_file", "str_replace", "present_files", "view_image"),
        *(ASK, TASK, "tool_search", "skill_manage", "write_todos", "schedule", "remember", "recall"),
        *("web_search", "web_fetch", "knowledge_search", RECORD, "make_image", "speak", "invoke_acp_agent"),
    ]
)
"""Names of Antler's tools, reserved even when they are switched off: a tool called `bash` for the model, people and the
audit log is ours."""

FOREIGN = "foreign"
"""Metadata key of a tool whose results are framed: the operator's own, and any other tool not written by us."""

INTERRUPTED = (
    "This tool call was interrupted: it may have happened, wholly, in part or not at all. "
    "Check the current state before you do it again."
)

NEVER_BEGUN = "This tool call was stopped before it began; nothing happened."
IDEMPOTENT = "idempotent"
"""A tool with metadata {"idempotent": True} may be run again when its outcome is unknown."""


def call_place(request: ToolCallRequest) -> str:
    """The call's unique name within its run."""
    call_id = request.tool_call["id"] or ""
    asking = scope_of(request.runtime).key(asking_message(request.state["messages"], call_id))
    return f"{asking}/{call_id}"


def effect_key(thread_id: str, run_id: str, message_id: str, call_id: str) -> EffectKey:
    """(thread, run, call). Some providers number the calls of each answer from the start, so the message's id is
    included."""
    return EffectKey(thread_id=thread_id, run_id=run_id, call_id=f"{message_id}/{call_id}")


async def recorded_result(effects: EffectLog, key: EffectKey, call: ToolCall) -> ToolMessage:
    """The logged outcome of a call that will not be made again: its result, unknown, or that it never began."""
    known = await effects.begin(key, call["name"])
    if known is None:
        return error_result(call, NEVER_BEGUN)
    if known.state == "done":
        return ToolMessage.model_validate_json(known.result)
    return interrupted_result(call)


def asking_message(messages: Sequence[BaseMessage], call_id: str) -> str:
    """The id of the assistant message that made a call."""
    for message in reversed(messages):
        if isinstance(message, AIMessage) and any(call["id"] == call_id for call in message.tool_calls):
            return message.id or ""
    return ""


def place_of(runtime: Runtime) -> str:
    """A call's name within its run, including calls of subagents."""
    call_id = runtime.tool_call_id or ""
    return f"{scope_of(runtime).key(asking_message(runtime.state['messages'], call_id))}/{call_id}"


def interrupted_result(call: ToolCall) -> ToolMessage:
    """The honest result of a call whose outcome is unknown."""
    return error_result(call, INTERRUPTED)


def error_result(call: ToolCall, text: str) -> ToolMessage:
    """The result of a call that failed or was not made; the text says why, and is already harmless."""
    return ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"], status="error")


def open_calls(messages: Sequence[AnyMessage]) -> list[tuple[str, ToolCall]]:
    """The calls of the last assistant message that have no result yet, with that message's id."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if isinstance(message, AIMessage):
            answered = {m.tool_call_id for m in messages[place + 1 :] if isinstance(m, ToolMessage)}
            return [(message.id or "", call) for call in message.tool_calls if call["id"] not in answered]
    return []


def is_foreign(tool: BaseTool | None) -> bool:
    """Whether a tool's output is untrusted."""
    return bool(((tool.metadata if tool is not None else None) or {}).get(FOREIGN))
