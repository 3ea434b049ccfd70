"""Limits of a run, model calls and budget: the last call gets no tools and is asked for an honest summary.

Both counts live outside of the thread (RunLedger, Budget), since LangChain's own counter starts again after a resume.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage

from harness.errors import ModelFailure
from harness.events import FailureKind
from harness.graph.messages import BUDGET, CALLS, cut_answer
from harness.graph.signals import scope_of
from harness.text.frames import LIMIT, framed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import ModelRequest, ModelResponse

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


class ModelCallLimit(AgentMiddleware[Any, Any, Any]):
    """Limits model calls: at `limit` (retries count) one last call has no tools, and its answer is Outcome.LIMITED."""

    def __init__(self, ledger: RunLedger, limit: int) -> None:
        super().__init__()
        self._ledger = ledger
        self._limit = limit

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        count = await self._counted(scope_of(request.runtime))
        if count < self._limit:
            return await handler(request)
        cause = {CALLS: self._limit}
        if request.tools:
            messages = [*request.messages, HumanMessage(SUM_UP)]
            request = request.override(messages=messages, tools=[], tool_choice=None)
            response = await handler(request)
            return replace(response, result=[cut_answer(message, cause) for message in response.result])
        # No tools were offered, so an answer now is a whole one, unless the model calls tools all the same.
        response = await handler(request)
        return replace(response, result=[cut_answer(m, cause) if _has_calls(m) else m for m in response.result])

    async def _counted(self, scope: RunScope) -> int:
        """Count one more call; returns the count, this call included."""
        return await self._ledger.model_called(scope.ctx.run_id)


class SubagentCallLimit(ModelCallLimit):
    """Counts the calls of one subagent, which is never resumed. The run's own count is left alone: else its subagents
    could use up the calls that the lead agent needs for an answer."""

    async def _counted(self, scope: RunScope) -> int:
        if scope.delegated is None:
            return await super()._counted(scope)
        scope.delegated.model_calls += 1
        return scope.delegated.model_calls


def _has_calls(message: Any) -> bool:
    return isinstance(message, AIMessage) and bool(message.tool_calls)


class BudgetStop(AgentMiddleware[Any, Any, Any]):
    """model: the name from the config, for the failure. A small overdraft is summed up, marked Outcome.LIMITED; a
    greater one raises ModelFailure, kind BUDGET."""

    def __init__(self, budget: Budget, model: str) -> None:
        super().__init__()
        self._budget = budget
        self._model = model

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        overdraft = await self._budget.overdraft(scope_of(request.runtime).ctx)
        if overdraft is None:
            return await handler(request)
        if not overdraft.small:
            raise ModelFailure(FailureKind.BUDGET, model=self._model, detail=overdraft.name)
        messages = [*request.messages, HumanMessage(NO_BUDGET)]
        response = await handler(request.override(messages=messages, tools=[], tool_choice=None))
        return replace(response, result=[cut_answer(message, {BUDGET: overdraft.name}) for message in response.result])
