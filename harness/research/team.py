"""The agents of a research: the port through which its graph has an agent of some role perform a task.
harness/agents/research.py implements it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langgraph.runtime import Runtime

    from harness.config import ModelSettings
    from harness.errors import ModelFailure
    from harness.events import ReadyFile
    from harness.graph.signals import RunScope
    from harness.research.config import Format
    from harness.research.plan import StepType


DoneState = Literal["completed", "failed", "timed_out", "cancelled"]


class Role(StrEnum):
    """The job of an agent of a research; each may have its own model."""

    COORDINATOR = "coordinator"
    BACKGROUND = "background"
    PLANNER = "planner"
    RESEARCHER = "researcher"
    ANALYST = "analyst"
    CODER = "coder"
    REPORTER = "reporter"


ROLE_OF: Mapping[StepType, Role] = {
    "research": Role.RESEARCHER,
    "analysis": Role.ANALYST,
    "processing": Role.CODER,
}
"""The role for each type of step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task. key: unique within the run. description: for people, a few words."""

    role: Role
    key: str
    description: str
    prompt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of a task. text: partial unless the state is "completed". detail: why it failed, in a clause. cut: it
    had to report early. failure: of its model, if that ended it."""

    state: DoneState
    text: str
    detail: str = ""
    seconds: int = 0
    calls: int = 0
    cut: bool = False
    failure: ModelFailure | None = None


class Team(Protocol):
    """The agents of a research."""

    async def perform(self, task: Task, scope: RunScope, runtime: Runtime[RunScope]) -> Done:
        """Have a task done; its progress and cost are reported. Cancelling it stops the agent."""

    def can(self, role: Role) -> bool:
        """Whether tools for the role's work are available."""

    def model(self, role: Role) -> ModelSettings:
        """The settings of a role's model. Raises ModelFailure if it does not exist."""

    async def gone(self, addresses: Sequence[str], scope: RunScope) -> Mapping[str, str]:
        """Whether these pages still answer: "", or why not, as a status such as "404" or UNREACHABLE. Pages that could
        not be requested are missing."""

    async def charts(self, run_ids: Sequence[str]) -> Sequence[str]:
        """The pictures that these runs presented, as paths below the thread's outputs, which hold the report."""

    async def present(self, name: str, text: str, formats: Sequence[Format], scope: RunScope) -> Sequence[ReadyFile]:
        """Write a report to the thread's outputs, as files of this name and these formats, and add them to the run's
        answer. Those that could not be made are missing."""
