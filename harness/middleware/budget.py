"""BudgetStop: a run whose budget is used up gets one last call without tools, to sum up, or ends without a further one.

What is spent is counted by bot/ from the run's events, subagents' among them; here it is only asked (ports.Budget).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import HumanMessage

from harness.errors import ModelFailure
from harness.events import FailureKind
from harness.graph.messages import BUDGET, cut_answer
from harness.graph.signals import scope_of
from harness.text.frames import LIMIT, framed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import ModelRequest, ModelResponse

    from harness.ports import Budget

SUM_UP = framed(
    LIMIT,
    "The budget for this turn is used up, so no more tools can be called. Answer now, and briefly: say what is done, "
    "what is not, and what the user can do next. Do not claim anything that did not happen.",
)


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
        messages = [*request.messages, HumanMessage(SUM_UP)]
        response = await handler(request.override(messages=messages, tools=[], tool_choice=None))
        return replace(response, result=[cut_answer(message, {BUDGET: overdraft.name}) for message in response.result])
