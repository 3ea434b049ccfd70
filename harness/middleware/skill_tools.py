"""SkillTools: while a skill is followed that lists its tools, the agent has no others; one that is off is not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage

from harness.signals import scope_of
from harness.skills.allowed import forbidden, limits_of
from harness.skills.reads import READ_FILE
from harness.tools.results import canonical

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from langchain.agents.middleware import ToolCallRequest
    from langgraph.types import Command

REFUSED = (
    "{tool} is outside of the allowed-tools of {skills}, so nothing happened. Until this turn ends only these may be "
    "called: {allowed}; besides them, files can be read and questions asked. Do it with these, or tell the person what "
    "cannot be done."
)
OFF = (
    "This is the workflow of a skill that is turned off here, or that an administrator has not agreed to yet, so it "
    "must not be followed. Do without it, or tell the person: /skills says more."
)
MOST_NAMED = 40


class SkillTools(AgentMiddleware[Any, Any, Any]):
    """Reads in the thread what is followed, and in the run's scope what whoever delegated this follows."""

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        scope, call = scope_of(request.runtime), request.tool_call
        limits = {**scope.skill_limits, **limits_of(request.state, scope.skills)}
        path = call["args"].get("path") if call["name"] == READ_FILE else None
        if isinstance(path, str) and scope.skills.forbids(canonical(path)):
            text = OFF
        elif forbidden(call["name"], limits):
            text = _refusal(call["name"], limits)
        else:
            return await handler(request)
        return ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"], status="error")


def _refusal(tool: str, limits: Mapping[str, frozenset[str]]) -> str:
    allowed = sorted(frozenset().union(*limits.values()))
    more = f" and {len(allowed) - MOST_NAMED} more" if len(allowed) > MOST_NAMED else ""
    skills = " and ".join(f"the skill {name}" for name in sorted(limits))
    return REFUSED.format(tool=tool, skills=skills, allowed=(", ".join(allowed[:MOST_NAMED]) or "none") + more)
