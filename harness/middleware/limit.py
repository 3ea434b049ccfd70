"""ModelCallLimit: the last allowed model call of a run gets no tools and is asked for an honest summary.

The count lives in the run's record (RunLedger), since LangChain's own counter starts anew after a resume.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage

from harness.events import Outcome
from harness.frames import LIMIT, framed
from harness.messages import CALLS, OUTCOME
from harness.signals import scope_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import ModelRequest, ModelResponse

    from harness.ports import RunLedger

SUM_UP = framed(
    LIMIT,
    "This turn has used up its model calls, so no more tools can be called. Answer now: say what is done, what is not, "
    "and what the user can do next. Do not claim anything that did not happen.",
)


class ModelCallLimit(AgentMiddleware[Any, Any, Any]):
    """At `limit` calls (retries count) one last call without tools; its answer is marked Outcome.LIMITED."""

    def __init__(self, ledger: RunLedger, limit: int) -> None:
        super().__init__()
        self._ledger = ledger
        self._limit = limit

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        count = await self._ledger.model_called(scope_of(request.runtime).ctx.run_id)
        if count < self._limit:
            return await handler(request)
        if request.tools:
            messages = [*request.messages, HumanMessage(SUM_UP)]
            request = request.override(messages=messages, tools=[], tool_choice=None)
            response = await handler(request)
            return replace(response, result=[self._limited(message) for message in response.result])
        # No tools were offered, so an answer now is a whole one, unless the model calls tools all the same.
        response = await handler(request)
        return replace(response, result=[self._limited(m) if _has_calls(m) else m for m in response.result])

    def _limited(self, message: Any) -> Any:
        if not isinstance(message, AIMessage):
            return message
        metadata = {**message.response_metadata, OUTCOME: Outcome.LIMITED.value, CALLS: self._limit}
        return message.model_copy(update={"tool_calls": [], "invalid_tool_calls": [], "response_metadata": metadata})


def _has_calls(message: Any) -> bool:
    return isinstance(message, AIMessage) and bool(message.tool_calls)
