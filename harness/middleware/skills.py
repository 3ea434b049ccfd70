"""Run-specific additions to the loop: skills and place in the system prompt, and the tools that a followed skill
leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import SystemMessage

from harness.graph.calls import error_result
from harness.graph.results import canonical
from harness.graph.signals import scope_of
from harness.prompt import PLACE_SLOT, place_section
from harness.skills.followed import READ_FILE, forbidden, limits_of
from harness.skills.prompt import SLOT, skills_section

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from langchain.agents.middleware import ModelRequest, ModelResponse, ToolCallRequest

    from harness.graph.calls import ModelHandler, ToolHandler, ToolResult
    from harness.graph.signals import RunScope

REFUSED = (
    "{tool} is not among the allowed-tools of {skills}, so nothing happened. Until this turn ends only these may be "
    "called: {allowed}; besides them, files can be read and questions asked. Use these, or tell the person what "
    "cannot be done."
)
OFF = (
    "This is the workflow of a skill that is turned off here, or that an administrator has not approved yet, so it "
    "must not be followed. Do without it, or tell the person: /skills shows more."
)
MOST_NAMED = 40


class PromptSlots(AgentMiddleware[Any, Any, Any]):
    """Fills the slots of the system prompt, which is otherwise identical for all: the list of skills, the place.

    budget: current tokens of the list; None where there are no skills.
    tools: names of the agent's tools.
    only: names of the skills that this agent has, None: all.
    """

    def __init__(
        self, budget: Callable[[], int] | None, tools: Collection[str], only: tuple[str, ...] | None = None
    ) -> None:
        super().__init__()
        self._budget = budget
        self._tools = tools
        self._only = only

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        prompt = request.system_message
        if prompt is None or not isinstance(prompt.content, str):
            return await handler(request)
        filled = self.filled(prompt.content, scope_of(request.runtime))
        return await handler(request.override(system_message=SystemMessage(filled)))

    def filled(self, prompt: str, scope: RunScope) -> str:
        """The prompt, or a section of it, as a run sees it."""
        skills, ctx = scope.skills.only(self._only).skills, scope.ctx
        if SLOT in prompt:
            section = skills_section(skills, self._budget(), self._tools) if self._budget is not None else ""
            prompt = prompt.replace(SLOT, f"{section}\n" if section else "", 1)
        if PLACE_SLOT in prompt:
            place = place_section(ctx.place, is_group=ctx.is_group, tools=self._tools, skills=bool(skills))
            prompt = prompt.replace(PLACE_SLOT, place, 1)
        return prompt


class SkillTools(AgentMiddleware[Any, Any, Any]):
    """Rejects tools outside the allowed-tools of followed skills, and reading a skill that is off.

    The thread shows which skills are followed, and the run's scope which ones the delegating agent follows.
    """

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        scope, call = scope_of(request.runtime), request.tool_call
        limits = {**scope.skill_limits, **limits_of(request.state, scope.skills)}
        path = call["args"].get("path") if call["name"] == READ_FILE else None
        if isinstance(path, str) and scope.skills.forbids(canonical(path)):
            text = OFF
        elif forbidden(call["name"], limits):
            text = _refusal(call["name"], limits)
        else:
            return await handler(request)
        return error_result(call, text)


def _refusal(tool: str, limits: Mapping[str, frozenset[str]]) -> str:
    allowed = sorted(frozenset().union(*limits.values()))
    more = f" and {len(allowed) - MOST_NAMED} more" if len(allowed) > MOST_NAMED else ""
    skills = " and ".join(f"the skill {name}" for name in sorted(limits))
    return REFUSED.format(tool=tool, skills=skills, allowed=(", ".join(allowed[:MOST_NAMED]) or "none") + more)
