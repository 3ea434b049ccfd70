"""Adapts requests to the thread: MCP tools that it has found, the plan it follows, the one question it asks, and each
tool call answered right after it, as strict providers demand."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool

from harness.events import TodoStatus
from harness.graph.calls import ASK, error_result, interrupted_result
from harness.graph.messages import LENGTH_REASONS, finish_reason
from harness.graph.state import PROMOTED, TODOS
from harness.text.frames import PLAN, framed, neutral
from harness.tools.asking import MOST_OPTIONS, asked
from harness.tools.planning import WRITE_TODOS, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain.agents.middleware import ModelRequest, ModelResponse, ToolCallRequest
    from langchain_core.messages import BaseMessage, ToolCall

    from harness.graph.calls import ModelHandler, ToolHandler, ToolResult


LONGEST_NAME = 64
CUT_OFF = (
    "Your answer reached its length limit in the middle of this call, so nothing happened. Make it shorter: write a "
    "long file in several calls."
)
NOT_LOADED = (
    "{name} is not loaded, so nothing happened. Call tool_search with select:{name} first; then call it with the "
    "arguments that its schema requires."
)
MISSING = (
    "There is no tool {name}, so nothing happened: its server has changed, or it never existed.{near} If no "
    "other tool can do it, tell the person."
)


class DanglingToolCall(AgentMiddleware[Any, Any, Any]):
    """Gives unanswered calls a synthetic result, and drops orphaned and duplicate results; the state is not changed.

    The settle step makes broken histories rare; this catches the rest (a rewind, a summary, a provider's quirk). A call
    that the provider's output limit cut is not made: its arguments are only those that had arrived.
    """

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        paired = pair_tool_calls(request.messages)
        return await handler(request if paired is request.messages else request.override(messages=paired))

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        if _is_cut(request.state["messages"], request.tool_call):
            return error_result(request.tool_call, CUT_OFF)
        return await handler(request)


def _is_cut(messages: Sequence[BaseMessage], call: ToolCall) -> bool:
    """Whether it is the last call of an answer that reached the limit. Half a question is still asked: it does no harm,
    and a turn cannot go on after one."""
    answer = next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)
    if answer is None or finish_reason(answer) not in LENGTH_REASONS or call["name"] == ASK:
        return False
    return bool(answer.tool_calls) and answer.tool_calls[-1]["id"] == call["id"]


def pair_tool_calls(messages: list[AnyMessage]) -> list[AnyMessage]:
    """The messages with every call followed by exactly one result; the same list if there is nothing to do."""
    if not any(isinstance(m, ToolMessage) or (isinstance(m, AIMessage) and m.tool_calls) for m in messages):
        return messages
    paired: list[AnyMessage] = []
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue  # added with its call
        paired.append(message)
        if isinstance(message, AIMessage) and message.tool_calls:
            results = _results_after(messages, place)
            paired += [results.get(call["id"] or "") or interrupted_result(call) for call in message.tool_calls]
    return messages if _same(paired, messages) else paired


def _results_after(messages: list[AnyMessage], place: int) -> dict[str, ToolMessage]:
    """The results between this assistant message and the next one; the newest for each call."""
    results: dict[str, ToolMessage] = {}
    for message in messages[place + 1 :]:
        if isinstance(message, AIMessage):
            break
        if isinstance(message, ToolMessage):
            results[message.tool_call_id] = message
    return results


def _same(left: list[AnyMessage], right: list[AnyMessage]) -> bool:
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))


class DeferredToolFilter(AgentMiddleware[Any, Any, Any]):
    """Hides deferred tools until they are found. names: of all tools of the graph. deferred: those to be found first.

    A run resumed after a restart may call a tool that is gone; it gets an answer too.
    """

    def __init__(self, names: Sequence[str], deferred: Sequence[str]) -> None:
        super().__init__()
        self._names = tuple(names)
        self._deferred = frozenset(deferred)

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        hidden = self._deferred - _promoted(request.state)
        if hidden:
            tools = [each for each in request.tools if not (isinstance(each, BaseTool) and each.name in hidden)]
            request = request.override(tools=tools)
        return await handler(request)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        name = request.tool_call["name"]
        if request.tool is None:
            return error_result(request.tool_call, MISSING.format(name=_short(name), near=self._near(name)))
        if name in self._deferred - _promoted(request.state):
            return error_result(request.tool_call, NOT_LOADED.format(name=name))
        return await handler(request)

    def _near(self, name: str) -> str:
        alike = get_close_matches(_short(name), self._names, n=3)
        return f" Did you mean {' or '.join(alike)}?" if alike else ""


def _promoted(state: Any) -> frozenset[str]:
    return frozenset(state.get(PROMOTED) or ())


def _short(name: str) -> str:
    return neutral(" ".join(name.split()))[:LONGEST_NAME]


class TodoList(AgentMiddleware[Any, Any, Any]):
    """Shows the plan once the messages in which it was written are gone; write_todos (tools/planning.py) writes it. At
    the end of a request, where it may change: everything before it stays as providers cached it."""

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        state: Any = request.state
        plan: list[dict[str, str]] = state.get(TODOS) or []
        if _is_open(plan) and not _is_at_hand(request.messages):
            note = HumanMessage(framed(PLAN, neutral(shown(plan))))
            request = request.override(messages=[*request.messages, note])
        return await handler(request)


def _is_open(plan: Sequence[dict[str, str]]) -> bool:
    return any(step["status"] != TodoStatus.COMPLETED for step in plan)


def _is_at_hand(messages: Sequence[BaseMessage]) -> bool:
    """Whether the call that wrote the plan is still in the history, not summarised away."""
    return any(
        call["name"] == WRITE_TODOS
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    )


class Clarification(AgentMiddleware[Any, Any, Any]):
    """Reduces an answer that asks the person to one question and nothing else, so that the turn ends after it: the
    graph's own edge does that only after a round of nothing but `return_direct` tools. Of several questions the first
    is kept; a call that asks nothing is removed, as if it had not been made."""

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        response = await handler(request)
        if not any(isinstance(message, AIMessage) and _asks(message) for message in response.result):
            return response
        return replace(response, result=[_only_the_question(message) for message in response.result])


def _asks(message: AIMessage) -> bool:
    return any(call["name"] == ASK for call in message.tool_calls)


def _only_the_question(message: Any) -> Any:
    if not isinstance(message, AIMessage) or not _asks(message):
        return message
    kept = _kept(message.tool_calls)
    update: dict[str, Any] = {"tool_calls": kept, "invalid_tool_calls": []}
    if isinstance(message.content, list):  # some providers repeat calls in the content's blocks
        ids = {call["id"] for call in kept}
        update["content"] = [block for block in message.content if _call_id(block) in (None, *ids)]
    return message.model_copy(update=update)


def _kept(calls: Sequence[ToolCall]) -> list[ToolCall]:
    question = next((call for call in calls if call["name"] == ASK and asked(call["args"]) is not None), None)
    if question is None:
        return [call for call in calls if call["name"] != ASK]
    return [{**question, "args": _arguments(question["args"])}]


def _arguments(args: dict[str, Any]) -> dict[str, Any]:
    """Arguments that the tool is sure to accept: if it refused them, the turn would end without a question."""
    shown = asked(args)
    options = list(shown.options[:MOST_OPTIONS]) if shown is not None else []
    question = args.get("question")
    context = args.get("context")
    fit = {"question": question if isinstance(question, str) else "", "options": options or None}
    return fit | ({"context": context} if isinstance(context, str) and context else {})


def _call_id(block: Any) -> str | None:
    is_call = isinstance(block, dict) and block.get("type") in ("tool_use", "tool_call", "function_call")
    return str(block.get("call_id") or block.get("id")) if is_call else None
