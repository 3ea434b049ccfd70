"""The section `guardrails` of the settings; light to import."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from harness.config import Section
from harness.guardrails.patterns import BadPattern, check_arguments, check_words

Decision = Literal["allow", "deny", "ask"]
MOST_RULES = 200


class RuleSettings(Section):
    """One rule; what it leaves out fits everything. The first rule that fits decides."""

    tool: str = Field(
        default="*", min_length=1, max_length=200, description="Name of the tool; * and ? as in file names"
    )
    command: tuple[str, ...] = Field(
        default=(), max_length=50, description="Of bash: words of the commands, as in `git status *`"
    )
    arguments: dict[str, str] = Field(
        default={}, max_length=20, description="Argument -> regular expression (RE2); all have to fit"
    )
    speaker: Literal["admin", "member"] | None = None
    place: Literal["group", "dm"] | None = None
    decision: Decision
    reason: str = Field(default="", max_length=300, description="Told to the model, or to the person who is asked")

    @field_validator("command", mode="before")
    @classmethod
    def _one_or_more(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @field_validator("command")
    @classmethod
    def _words(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in value:
            try:
                check_words(pattern)
            except BadPattern as error:
                raise ValueError(str(error)) from None
        return value

    @field_validator("arguments")
    @classmethod
    def _expressions(cls, value: dict[str, str]) -> dict[str, str]:
        for name, expression in value.items():
            try:
                check_arguments(expression)
            except BadPattern as error:
                raise ValueError(f"the expression of {name} cannot be used: {error}") from None
        return value

    @model_validator(mode="after")
    def _command_of_bash(self) -> Self:
        if self.command and self.tool != "bash":
            raise ValueError("command is for tool: bash only; use arguments")
        return self


class GuardrailSettings(Section):
    """use: module:Class of a provider instead of the rules. rules: looked through from above, then the built-in ones;
    default: of what none of them fits. ask_seconds: how long a person has to answer before it counts as a denial."""

    use: str = Field(default="", pattern=r"^$|^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", max_length=300)
    rules: tuple[RuleSettings, ...] = Field(default=(), max_length=MOST_RULES)
    builtin: bool = True
    default: Decision = "allow"
    provider_seconds: float = Field(default=5.0, gt=0, le=60)
    ask_seconds: float = Field(default=1800.0, ge=1, le=86_400)
