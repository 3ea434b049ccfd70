"""The settings section `subagents`; bot/settings/model.py puts it into the one tree. Light to import."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from harness.config import Section
from harness.skills.config import SkillName

GENERAL_PURPOSE, BASH = "general-purpose", "bash"
INHERIT = "inherit"
MOST_PER_RUN = 20

TypeName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
ToolName = Annotated[str, StringConstraints(pattern=r"^[\w.:-]+$", max_length=128)]


class SubagentSettings(Section):
    """A subagent type of the operator's own, or changes to a built-in one.

    description: on which the lead agent bases its choice. tools: None: those of the lead agent; never more than those.
    model: a name of `models`, or "inherit". max_turns: model calls. timeout_seconds: None: that of the section. skills:
    None: those of the lead agent; never more than those.
    """

    description: str = Field(default="", max_length=1000)
    system_prompt: str = Field(default="", max_length=20_000)
    tools: tuple[ToolName, ...] | None = None
    disallowed_tools: tuple[ToolName, ...] = ()
    model: str = INHERIT
    max_turns: int = Field(default=100, ge=1, le=1000)
    timeout_seconds: float | None = Field(default=None, gt=0)
    skills: tuple[SkillName, ...] | None = None


class SubagentsSettings(Section):
    """max_concurrent: of the process; one speaker gets at most half. per_run: concurrent ones. types: by name."""

    enabled: bool = True
    max_concurrent: int = Field(default=150, gt=0)
    per_run: int = Field(default=3, gt=0, le=MOST_PER_RUN)
    timeout_seconds: float = Field(default=900.0, gt=0)
    types: dict[TypeName, SubagentSettings] = Field(default={}, max_length=50)

    @model_validator(mode="after")
    def _described(self) -> Self:
        for name, each in self.types.items():
            if name not in (GENERAL_PURPOSE, BASH) and not (each.description.strip() and each.system_prompt.strip()):
                raise ValueError(f"types.{name} needs a description and a system_prompt")
        return self
