"""TodoList: the plan outlives the messages that it was written in; write_todos (harness/tools/planning.py) writes it.

LangChain's own middleware has a node hook and turns the system prompt into parts, so that its prefix changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage

from harness.events import TodoStatus
from harness.graph.state import TODOS
from harness.text.frames import PLAN, framed, neutral
from harness.tools.planning import WRITE_TODOS, shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain.agents.middleware import ModelRequest, ModelResponse
    from langchain_core.messages import BaseMessage


class TodoList(AgentMiddleware[Any, Any, Any]):
    """At the end of a request, which is where it may change: before it, everything stays as providers cached it."""

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        state: Any = request.state
        plan: list[dict[str, str]] = state.get(TODOS) or []
        if _is_open(plan) and not _is_at_hand(request.messages):
            note = HumanMessage(framed(PLAN, neutral(shown(plan))))
            request = request.override(messages=[*request.messages, note])
        return await handler(request)


def _is_open(plan: Sequence[dict[str, str]]) -> bool:
    return any(step["status"] != TodoStatus.COMPLETED for step in plan)


def _is_at_hand(messages: Sequence[BaseMessage]) -> bool:
    """Whether a summary has not yet taken the call that wrote it."""
    return any(
        call["name"] == WRITE_TODOS
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    )
