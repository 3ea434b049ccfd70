"""ForeignResults: what a tool says that is not ours is data; it stands in a block that it cannot open or close."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from harness.graph.calls import is_foreign
from harness.web.results import outside

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import ToolCallRequest
    from langchain_core.messages import ToolCall

log = logging.getLogger(__name__)

NO_RESULT = "It was done, and it answered nothing."


class ForeignResults(AgentMiddleware[Any, Any, Any]):
    """Changes texts, alone or among other parts; pictures stay as they are.

    A tool may also answer with LangGraph's commands: of these only the result of the call is taken. What else they
    would change (the history, the plan, what comes next) is the harness's, and would pass the block.

    An artifact goes: it could be no JSON, which the thread is, or say what only our own tools' artifacts say.
    """

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        result = await handler(request)
        if not is_foreign(request.tool):
            return result
        if not isinstance(result, ToolMessage):
            result = _message_of(result, request.tool_call)
        return result.model_copy(update={"content": _framed(result.content), "artifact": None})


def _message_of(result: Any, call: ToolCall) -> ToolMessage:
    """The call's result among what its commands bring."""
    answers = result if isinstance(result, list) else [result]
    for answer in answers:
        for message in _messages(answer):
            if isinstance(message, ToolMessage) and message.tool_call_id == call["id"]:
                log.info("the tool %s answered with a command: only its result is taken", call["name"])
                return message
    log.warning("the tool %s answered with a command that has no result of the call", call["name"])
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
