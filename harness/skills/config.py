"""Settings of skills and of their evolution. Light to import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from harness.config import Section
from harness.skills.document import NAME_RULE, valid_name


def _hyphen_case(name: str) -> str:
    if not valid_name(name):
        raise ValueError(NAME_RULE)
    return name


SkillName = Annotated[str, AfterValidator(_hyphen_case)]


class SkillEvolutionSettings(Section):
    """Changes of skills by the agent.

    enabled: it may propose new skills and changes, which a person must approve.
    model: judges them, "" for the first one.
    """

    enabled: bool = False
    model: str = Field(default="", max_length=200)


class SkillsSettings(Section):
    """Skills of the installation.

    public: use the skills that ship with Antler.
    custom: folder of this installation's own skills, None: skills/custom in data_dir.
    disabled: names that are off for everyone.
    prompt_tokens: approximate size of their list in each request.
    """

    enabled: bool = True
    public: bool = True
    custom: Path | None = None
    disabled: tuple[SkillName, ...] = Field(default=(), max_length=1000)
    prompt_tokens: int = Field(default=2000, ge=100, le=50_000)

    @field_validator("custom")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        return value.expanduser().absolute() if value is not None else None
