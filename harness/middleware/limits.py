"""Limits of a run: repeated calls, concurrent subagents, model calls and budget.

When the calls or the budget are used up, the last call gets no tools and is asked for an honest summary. Both counts
are kept outside the thread (RunLedger, Budget), since LangChain's own counter restarts after a resume. Loops are
counted in the thread itself, over the open turn: so a resumed run continues the count without extra state.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage

from harness.errors import ModelFailure
from harness.events import FailureKind
from harness.graph.calls import TASK
from harness.graph.messages import BUDGET, CALLS, LOOP, MARK, cut_answer, is_users
from harness.graph.signals import CallDropped, CallEnded, scope_of, tell
from harness.text.frames import LIMIT, framed, neutral
from harness.text.plain import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain.agents.middleware import ModelRequest, ModelResponse
    from langchain_core.messages import BaseMessage, ToolCall

    from harness.config import LoopSettings
    from harness.graph.calls import ModelHandler
    from harness.graph.signals import RunScope
    from harness.ports import Budget, RunLedger


SUM_UP = framed(
    LIMIT,
    "This turn has used up its model calls, so no more tools can be called. Answer now: say what is done, what is not, "
    "and what the user can do next. Do not claim anything that did not happen.",
)
NO_BUDGET = framed(
    LIMIT,
    "The budget for this turn is used up, so no more tools can be called. Answer now, and briefly: say what is done, "
    "what is not, and what the user can do next. Do not claim anything that did not happen.",
)
TASKS_CUT = "subagent_limit"
CUT = "antler_tasks_cut"
"""response_metadata key of an answer with removed calls: what they were about. In the thread, to survive a restart."""
MOST_NAMED, LONGEST_NAMED = 20, 80
BLOCKS = frozenset({"tool_use", "tool_call", "function_call"})
"""Types of content blocks that repeat a call."""
NOTE = (
    "At most {limit} tasks run at once, so these from your last answer were not started: {tasks}. Nothing was done for "
    "them. Delegate them now if they are still needed, at most {limit} in one answer."
)

Key = tuple[str, str]
"""(tool, its salient arguments as JSON)."""
LOOP_WARNING = "loop_warning"
WARNING = framed(
    LIMIT,
    "You have made this exact call {count} times in this turn: {tool}. Making it again will not return anything new. "
    "Do something else, or answer with what you have.",
)
STOP = framed(
    LIMIT,
    "The same call was about to be made for the {count}th time in this turn, so no more tools can be called. Answer "
    "now: say what is done, what is not and why, and what the user can do next. Do not claim anything that did not "
    "happen.",
)
NOT_SALIENT = frozenset({"description"})
"""Arguments that a model words differently each time without changing the call."""


class LoopDetection(AgentMiddleware[Any, Any, Any]):
    """Tells a model that it repeats a call, then asks it to answer without tools. Outside of what counts model calls,
    since a stop makes one more."""

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__()
        self._settings = settings

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        made = calls_of_turn(request.state["messages"])
        count = self._repeated(made)
        # At the end of the request: nothing may stand between a call and its result.
        warned = count >= self._settings.warn
        asked = _noted(request, WARNING.format(count=count, tool=made[-1][0])) if warned else request
        response = await handler(asked)
        count = self._repeated([*made, *_keys(response.result)])
        if count < self._settings.stop:
            return response
        if request.tools:
            tell(request.runtime, CallDropped())
            response = await handler(_noted(request, STOP.format(count=count)).override(tools=[], tool_choice=None))
        result = [cut_answer(message, {LOOP: count}) for message in response.result]
        for message in result:
            if isinstance(message, AIMessage):  # sent before it was marked
                tell(request.runtime, CallEnded(message))
        return replace(response, result=result)

    def _repeated(self, made: Sequence[Key]) -> int:
        """How often the last call was made: a loop includes the most recent call."""
        return made[-self._settings.window :].count(made[-1]) if made else 0


def calls_of_turn(messages: Sequence[BaseMessage]) -> list[Key]:
    """The tool calls since the person's last message, oldest first."""
    start = max((place for place, message in enumerate(messages) if is_users(message)), default=-1)
    return _keys(messages[start + 1 :])


def _keys(messages: Sequence[Any]) -> list[Key]:
    return [_key(call) for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]


def _key(call: ToolCall) -> Key:
    salient = {name: value for name, value in call["args"].items() if name not in NOT_SALIENT}
    return call["name"], json.dumps(salient, sort_keys=True, ensure_ascii=False, default=str)


def _noted(request: ModelRequest[Any], note: str) -> ModelRequest[Any]:
    return request.override(messages=[*request.messages, HumanMessage(note, name=LOOP_WARNING)])


class SubagentLimit(AgentMiddleware[Any, Any, Any]):
    """Removes calls of `task` beyond `limit` from an answer and tells the model; other tools' calls are left alone."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        cut = _cut_before(request.messages)
        if cut and request.tools:
            # At the end of the request: nothing may stand between a call and its result.
            note = framed(LIMIT, NOTE.format(limit=self._limit, tasks="; ".join(cut)))
            request = request.override(
                messages=[*request.messages, HumanMessage(note, name=TASKS_CUT, additional_kwargs={MARK: TASKS_CUT})]
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
    """Whether it repeats one of these calls. OpenAI's Responses API gives a block its own id besides the call's."""
    return isinstance(block, dict) and block.get("type") in BLOCKS and (block.get("call_id") or block.get("id")) in ids


def _cut_before(messages: Sequence[BaseMessage]) -> list[str]:
    """The calls removed from the answer whose results the model is about to read."""
    newest = next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)
    if newest is None or messages[-1] is newest or not newest.tool_calls:
        return []
    return [str(each) for each in newest.response_metadata.get(CUT, [])]


class ModelCallLimit(AgentMiddleware[Any, Any, Any]):
    """Limits model calls: at `limit` (retries count) one last call gets no tools, and its answer is Outcome.LIMITED."""

    def __init__(self, ledger: RunLedger, limit: int) -> None:
        super().__init__()
        self._ledger = ledger
        self._limit = limit

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        count = await self._counted(scope_of(request.runtime))
        if count < self._limit:
            return await handler(request)
        cause = {CALLS: self._limit}
        if request.tools:
            messages = [*request.messages, HumanMessage(SUM_UP)]
            request = request.override(messages=messages, tools=[], tool_choice=None)
            response = await handler(request)
            return replace(response, result=[cut_answer(message, cause) for message in response.result])
        # No tools were offered, so an answer is complete, unless the model calls tools all the same.
        response = await handler(request)
        return replace(response, result=[cut_answer(m, cause) if _has_calls(m) else m for m in response.result])

    async def _counted(self, scope: RunScope) -> int:
        """Count one more call; returns the count, this call included. A subagent, which is never resumed, has its own:
        else subagents could use up the calls that the lead agent needs for an answer."""
        if scope.delegated is None:
            return await self._ledger.model_called(scope.ctx.run_id)
        scope.delegated.model_calls += 1
        return scope.delegated.model_calls


def _has_calls(message: Any) -> bool:
    return isinstance(message, AIMessage) and bool(message.tool_calls)


class BudgetStop(AgentMiddleware[Any, Any, Any]):
    """model: its name in the config, for the failure. With a small overdraft the model sums up, marked Outcome.LIMITED;
    a larger one raises ModelFailure, kind BUDGET."""

    def __init__(self, budget: Budget, model: str) -> None:
        super().__init__()
        self._budget = budget
        self._model = model

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        overdraft = await self._budget.overdraft(scope_of(request.runtime).ctx)
        if overdraft is None:
            return await handler(request)
        if not overdraft.small:
            raise ModelFailure(FailureKind.BUDGET, model=self._model, detail=overdraft.name)
        messages = [*request.messages, HumanMessage(NO_BUDGET)]
        response = await handler(request.override(messages=messages, tools=[], tool_choice=None))
        return replace(response, result=[cut_answer(message, {BUDGET: overdraft.name}) for message in response.result])
