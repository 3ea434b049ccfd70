"""Who works on a research: the port by which its graph has an agent of some role perform a task. The agents behind it
are made in harness/agents/research.py."""

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
    """What an agent of a research does; each may have a model of its own."""

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
"""Who works on a step of some type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """key: unique within the run. description: for people, a few words."""

    role: Role
    key: str
    description: str
    prompt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a task ended. text: partial where the state is not "completed". detail: why it failed, in a clause. cut: it
    had to report early. failure: of its model, where that ended it."""

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
        """Have a task done; its progress and its cost are told. Cancelling it stops the agent."""

    def can(self, role: Role) -> bool:
        """Whether there are tools for the role's work here."""

    def model(self, role: Role) -> ModelSettings:
        """The settings of the model that a role has. Raises ModelFailure for one that is not there."""

    async def gone(self, addresses: Sequence[str], scope: RunScope) -> Mapping[str, str]:
        """Whether these pages still answer: "", or why not, as a status such as "404" or UNREACHABLE. Those that could
        not be asked are missing."""

    async def charts(self, run_ids: Sequence[str]) -> Sequence[str]:
        """The pictures that these runs handed over, as paths below the thread's outputs, where the report stands."""

    async def present(self, name: str, text: str, formats: Sequence[Format], scope: RunScope) -> Sequence[ReadyFile]:
        """Write a report into the thread's outputs, as files of this name and of these formats, and put them with the
        run's answer. Those that could not be made are missing."""
