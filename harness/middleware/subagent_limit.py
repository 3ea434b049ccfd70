"""SubagentLimit: more calls of `task` in one answer than may run at once are cut, and the model is told so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage

from harness.graph.calls import TASK
from harness.graph.messages import MARK
from harness.text.frames import LIMIT, framed, neutral
from harness.text.plain import one_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain.agents.middleware import ModelRequest, ModelResponse
    from langchain_core.messages import BaseMessage, ToolCall

NAME = "subagent_limit"
CUT = "antler_tasks_cut"
"""response_metadata key of an answer with cut calls: what they were about. In the thread, so it survives a restart."""
MOST_NAMED, LONGEST_NAMED = 20, 80
BLOCKS = frozenset({"tool_use", "tool_call", "function_call"})
"""Types of content blocks in which providers repeat a call."""
NOTE = (
    "At most {limit} tasks run at once, so these of your last answer were not started: {tasks}. Nothing was done for "
    "them. Delegate them now if they are still needed, at most {limit} in one answer."
)


class SubagentLimit(AgentMiddleware[Any, Any, Any]):
    """limit: tasks in one answer; calls of other tools are left alone."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        cut = _cut_before(request.messages)
        if cut and request.tools:
            # At the end of the request: between a call and its result nothing may stand.
            note = framed(LIMIT, NOTE.format(limit=self._limit, tasks="; ".join(cut)))
            request = request.override(
                messages=[*request.messages, HumanMessage(note, name=NAME, additional_kwargs={MARK: NAME})]
            )
        response = await handler(request)
        return replace(response, result=[self._limited(message) for message in response.result])

    def _limited(self, message: Any) -> Any:
        if not isinstance(message, AIMessage):
            return message
        extra = [call for call in message.tool_calls if call["name"] == TASK][self._limit :]
        return _without(message, extra) if extra else message


def _without(message: AIMessage, extra: Sequence[ToolCall]) -> AIMessage:
    ids = {call["id"] for call in extra}
    named = [neutral(one_line(str(call["args"].get("description") or TASK), LONGEST_NAMED)) for call in extra]
    update: dict[str, Any] = {
        "tool_calls": [call for call in message.tool_calls if call["id"] not in ids],
        "response_metadata": {**message.response_metadata, CUT: named[:MOST_NAMED]},
    }
    if isinstance(message.content, list):
        update["content"] = [block for block in message.content if not _repeats(block, ids)]
    return message.model_copy(update=update)


def _repeats(block: Any, ids: set[str | None]) -> bool:
    """OpenAI's Responses API gives a block an id of its own next to its call's."""
    return isinstance(block, dict) and block.get("type") in BLOCKS and (block.get("call_id") or block.get("id")) in ids


def _cut_before(messages: Sequence[BaseMessage]) -> list[str]:
    """What was cut from the answer whose results the model is about to read."""
    newest = next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)
    if newest is None or messages[-1] is newest or not newest.tool_calls:
        return []
    return [str(each) for each in newest.response_metadata.get(CUT, [])]
