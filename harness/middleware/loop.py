"""LoopDetection: a model that makes the same call again and again is told so, and then asked to answer without tools.

It counts in the thread itself, over the open turn: so a resumed run goes on counting, and nothing has to be kept.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage

from harness.graph.messages import LOOP, cut_answer, is_users
from harness.graph.signals import CallDropped, CallEnded, tell
from harness.text.frames import LIMIT, framed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain.agents.middleware import ModelRequest, ModelResponse
    from langchain_core.messages import BaseMessage, ToolCall

    from harness.config import LoopSettings

Key = tuple[str, str]
"""A tool, and its salient arguments as JSON."""

NAME = "loop_warning"
WARNING = framed(
    LIMIT,
    "You have made this very call {count} times in this turn: {tool}. Making it again will not give anything new. "
    "Do something else, or answer with what you have.",
)
STOP = framed(
    LIMIT,
    "The same call was about to be made for the {count}th time in this turn, so no more tools can be called. Answer "
    "now: say what is done, what is not and why, and what the user can do next. Do not claim anything that did not "
    "happen.",
)
NOT_SALIENT = frozenset({"description"})
"""Arguments that a model words differently each time, and that change nothing."""


class LoopDetection(AgentMiddleware[Any, Any, Any]):
    """Outside what tells of and counts the model's calls, since a stop asks it once more."""

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__()
        self._settings = settings

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        made = calls_of_turn(request.state["messages"])
        count = self._repeated(made)
        # At the end of the request: between a call and its result nothing may stand.
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
            if isinstance(message, AIMessage):  # told before it was marked
                tell(request.runtime, CallEnded(message))
        return replace(response, result=result)

    def _repeated(self, made: Sequence[Key]) -> int:
        """How often the last call was made: a loop is in what was just done."""
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
    return request.override(messages=[*request.messages, HumanMessage(note, name=NAME)])
