"""SkillList: puts the list of skills into the system prompt, which is otherwise the same for everybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import SystemMessage

from harness.signals import scope_of
from harness.skills.prompt import SLOT, skills_section

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import ModelRequest, ModelResponse


class SkillList(AgentMiddleware[Any, Any, Any]):
    """budget: tokens of the list, as it holds now. only: names of the skills that this agent has, None: all."""

    def __init__(self, budget: Callable[[], int], only: tuple[str, ...] | None = None) -> None:
        super().__init__()
        self._budget = budget
        self._only = only

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        prompt = request.system_message
        if prompt is None or not isinstance(prompt.content, str) or SLOT not in prompt.content:
            return await handler(request)
        skills = scope_of(request.runtime).skills.only(self._only).skills
        section = skills_section(skills, self._budget())
        listed = prompt.content.replace(SLOT, f"{section}\n" if section else "", 1)
        return await handler(request.override(system_message=SystemMessage(listed)))
