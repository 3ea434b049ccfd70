"""The settings section `research`; bot/settings/model.py puts it into the one tree. Light to import."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, StringConstraints

from harness.config import Section

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

INHERIT = "inherit"
"""Value for a role's model: the one that answers in the conversation."""

Length = Literal["short", "normal", "long"]
Format = Literal["md", "docx", "pdf"]
ToolPattern = Annotated[str, StringConstraints(pattern=r"^[\w.:*-]+$", max_length=128)]


class Style(StrEnum):
    """Writing style of a report, and its audience."""

    ACADEMIC = "academic"
    POPULAR_SCIENCE = "popular_science"
    NEWS = "news"
    SOCIAL_MEDIA = "social_media"
    STRATEGIC = "strategic"


class RoleModels(Section):
    """The roles' models: names of `models`, or "inherit"."""

    coordinator: str = INHERIT
    background: str = INHERIT
    planner: str = INHERIT
    researcher: str = INHERIT
    analyst: str = INHERIT
    coder: str = INHERIT
    reporter: str = INHERIT


class RoleTools(Section):
    """Additional tools of the roles that carry out steps: names of tools that the agent has, including those of MCP
    servers; * matches any characters."""

    researcher: tuple[ToolPattern, ...] = ()
    analyst: tuple[ToolPattern, ...] = ()
    coder: tuple[ToolPattern, ...] = ()


class ResearchSettings(Section):
    """The section `research`. max_plan_iterations: plans of one research; with more than one, the planner reviews the
    findings and may add steps. max_steps: of one plan. at_once: concurrent steps. max_turns: model calls in one step,
    the last one to sum up."""

    enabled: bool = True
    background: bool = Field(default=True, description="One quick search before planning")
    clarification: bool = Field(default=False, description="The agent may ask back before it plans")
    max_clarification_rounds: int = Field(default=3, ge=1, le=10)
    max_plan_iterations: int = Field(default=1, ge=1, le=5)
    max_steps: int = Field(default=6, ge=1, le=20)
    max_search_results: int = Field(default=5, ge=1, le=20, description="Results that the search before planning uses")
    auto_accept: bool = Field(default=False, description="Plans start without a person's approval")
    at_once: int = Field(default=3, ge=1, le=20)
    seconds_per_step: float = Field(default=600.0, gt=0)
    max_turns: int = Field(default=30, ge=2, le=1000)
    style: Style = Style.ACADEMIC
    length: Length = "normal"
    deliver: tuple[Format, ...] = Field(
        default=("md", "docx"),
        min_length=1,
        max_length=3,
        description="Files of the report; docx and pdf are made in the sandbox",
    )
    models: RoleModels = RoleModels()
    tools: RoleTools = RoleTools()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchParts:
    """What research needs besides its agents. words: a language's sentences for people (bot/texts, `research`)."""

    settings: ResearchSettings
    words: Callable[[str], Mapping[str, str]]
