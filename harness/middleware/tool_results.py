"""Prepares tool results for the model: foreign ones framed, long ones shortened, failures explained."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any
from zlib import crc32

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import ToolException
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from harness.graph.calls import error_result, is_foreign
from harness.graph.results import MOST_CHARACTERS
from harness.graph.sandbox import kept
from harness.graph.signals import scope_of
from harness.text.frames import neutral, outside
from harness.text.plain import clean_text
from sandbox.base import SandboxError

if TYPE_CHECKING:
    from langchain.agents.middleware import ToolCallRequest
    from langchain_core.messages import ToolCall

    from harness.graph.calls import ToolHandler, ToolResult

log = logging.getLogger(__name__)

BUDGET = 20_000
"""Characters of a result; a tool with the metadata key MOST_CHARACTERS has its own limit."""
ROOM = 400
"""Characters of these for the note between head and tail."""
HEAD_SHARE = 0.5
LONGEST_KEPT = 2_000_000
"""Characters of the file."""

NO_RESULT = "It was done and returned nothing."

NO_SANDBOX = (
    "The sandbox does not work now: {text}. {hint}Commands and files are not available until then; do not try again in "
    "this turn. Tell the person, and answer as well as you can without."
)
TIMED_OUT = "{tool} took too long and was stopped. Try something smaller, or try again later."
DEFECT = (
    "{tool} failed because of a defect in it ({kind}), not because of you; part of it may have happened. "
    "Check the current state, then try another way. If there is none, tell the person."
)


class ToolOutputBudget(AgentMiddleware[Any, Any, Any]):
    """Writes a long result to a file in the sandbox; the model gets its head, its tail and the path. Short results, and
    those of several parts (pictures), are left alone."""

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        result = await handler(request)
        if not isinstance(result, ToolMessage) or not isinstance(result.content, str):
            return result
        most = _budget(request)
        if len(result.content) <= most:
            return result
        path = await _stored(request, result.content)
        return result.model_copy(update={"content": _shortened(result.content, most, path)})


def _budget(request: ToolCallRequest) -> int:
    metadata = request.tool.metadata if request.tool is not None else None
    return int((metadata or {}).get(MOST_CHARACTERS, BUDGET))


async def _stored(request: ToolCallRequest, text: str) -> str:
    """The path of the file with the whole result; "" if it could not be written."""
    scope = scope_of(request.runtime)
    call = re.sub(r"[^\w-]", "_", request.tool_call["id"] or "")[:64]
    # Subagents number their calls separately, and their keys are long.
    whose = f"{crc32(scope.delegated.key.encode()):08x}-" if scope.delegated is not None else ""
    name = f"{scope.ctx.run_id[:8]}-{whose}{call}.txt"
    return await kept(scope.sandbox, name, text[:LONGEST_KEPT], "long result")


def _shortened(text: str, most: int, path: str) -> str:
    left = most - ROOM
    head = int(left * HEAD_SHARE)
    cut = f"[... cut: {len(text) - left} of {len(text)} characters are left out here"
    if path:
        part = "" if len(text) <= LONGEST_KEPT else f"the first {LONGEST_KEPT} characters of "
        note = f"{cut}; {part}the result can be read in {path}, by its lines or with grep ...]"
    else:
        note = f"{cut}, and they are not kept: request less at once ...]"
    return f"{text[:head]}\n\n{note}\n\n{text[head - left :]}"


class ForeignResults(AgentMiddleware[Any, Any, Any]):
    """Frames the output of the operator's tools as data, in a block that it cannot open or close. Changes only texts,
    alone or among other parts; pictures stay as they are.

    A tool may also answer with LangGraph's commands: only the result of the call is taken from them. Anything else they
    would change (the history, the plan, the next step) belongs to the harness, and would bypass the block.

    An artifact is dropped: it might not be JSON, or might claim what only our own tools' artifacts may.
    """

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        result = await handler(request)
        if not is_foreign(request.tool):
            return result
        if not isinstance(result, ToolMessage):
            result = _message_of(result, request.tool_call)
        return result.model_copy(update={"content": _framed(result.content), "artifact": None})


def _message_of(result: Any, call: ToolCall) -> ToolMessage:
    """The call's result among its commands' messages."""
    answers = result if isinstance(result, list) else [result]
    for answer in answers:
        for message in _messages(answer):
            if isinstance(message, ToolMessage) and message.tool_call_id == call["id"]:
                log.info("tool %s returned a command: only its result is used", call["name"])
                return message
    log.warning("tool %s returned a command without a result for the call", call["name"])
    return ToolMessage(NO_RESULT, tool_call_id=call["id"] or "", name=call["name"])


def _messages(answer: Any) -> list[Any]:
    if not isinstance(answer, Command):
        return [answer]
    found = answer.update.get("messages", []) if isinstance(answer.update, dict) else []
    return found if isinstance(found, list) else [found]


def _framed(content: Any) -> Any:
    if isinstance(content, str):
        return outside(content)
    return [
        outside(part)
        if isinstance(part, str)
        else {**part, "text": outside(str(part.get("text", "")))}
        if part.get("type") == "text"
        else part
        for part in content
    ]


class ToolErrorHandling(AgentMiddleware[Any, Any, Any]):
    """Turns a tool's failure into a result that says what failed and what to try. Cancellation and LangGraph's control
    flow (GraphInterrupt is an Exception) pass through.

    Only errors made for the model (ToolException, SandboxError) are quoted: any other error's text may contain a local
    path or a secret, so it is only logged.
    """

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        try:
            return await handler(request)
        except GraphBubbleUp:
            raise
        except Exception as error:  # tools of any origin may raise anything
            call = request.tool_call
            text = neutral(clean_text(_explained(call["name"], error)))
            return error_result(call, text)


def _explained(tool: str, error: Exception) -> str:
    match error:
        case SandboxError():
            log.error("sandbox failure: %s %s", error, error.hint)
            hint = f"An operator can help: {error.hint.rstrip('.')}. " if error.hint else "An operator has to fix it. "
            return NO_SANDBOX.format(text=str(error).rstrip("."), hint=hint)
        case ToolException():
            # Its text is for the model: it may name a file of the person's, or what was searched for in it.
            log.info("%s failed: %s", tool, type(error).__name__)
            return f"{tool} failed: {error}"
        case TimeoutError():
            log.warning("%s took too long", tool)
            return TIMED_OUT.format(tool=tool)
        case _:
            log.error("the tool %s failed for an unexpected reason", tool, exc_info=error)
            return DEFECT.format(tool=tool, kind=type(error).__name__)
