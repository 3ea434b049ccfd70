"""The section `guardrails` of the settings, and the patterns of its rules; light to import.

Expressions for arguments are RE2's, which run in time linear in the text; commands are matched word by word.
"""

from __future__ import annotations

import functools
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from harness.config import Section

Decision = Literal["allow", "deny", "ask"]
MOST_RULES = 200

MOST_MEMORY = 4 << 20
LONGEST = 500


class BadPattern(ValueError):
    """A pattern is invalid. The text says why, for operators."""


def check_arguments(expression: str) -> None:
    """Check an expression for arguments. Raises BadPattern."""
    _compiled(expression, whole=False)


def check_words(pattern: str) -> None:
    """Check a pattern for commands. Raises BadPattern."""
    words = pattern.split()
    if not words or words[0] == "*":
        raise BadPattern("a command pattern begins with the name of a program, as in `git status *`")
    for word in words:
        _glob(word)


def fits_whole(expression: str, text: str) -> bool:
    """Whether the expression matches the whole text; a dot matches no line break. For patterns that allow."""
    return _compiled(expression, whole=True).fullmatch(_valid(text)) is not None


def fits_anywhere(expression: str, text: str) -> bool:
    """Whether the expression matches anywhere in a text; a dot matches any character. For patterns that restrict."""
    return _compiled(expression, whole=False).search(_valid(text)) is not None


def fits_words(pattern: str, words: list[str]) -> bool:
    """Whether the words of a command match, one by one; a trailing * stands for any number of further words."""
    wanted = pattern.split()
    if wanted[-1] == "*":
        wanted = wanted[:-1]
        words = words[: len(wanted)] if len(words) >= len(wanted) else []
    return len(words) == len(wanted) and all(map(fits_glob, wanted, words))


def fits_glob(pattern: str, text: str) -> bool:
    """Whether the pattern, with * and ? as in file names, matches the whole text."""
    return _glob(pattern).fullmatch(_valid(text)) is not None


def _valid(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


@functools.lru_cache(maxsize=1024)
def _compiled(expression: str, *, whole: bool) -> Any:
    import re2  # type: ignore[import-untyped]  # 1.5 MB, which a gateway without such rules does not need

    if len(expression) > LONGEST:
        raise BadPattern(f"longer than {LONGEST} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MOST_MEMORY
    options.dot_nl = not whole
    try:
        return re2.compile(expression, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise BadPattern(f"not a valid RE2 regular expression ({error})") from None


@functools.lru_cache(maxsize=1024)
def _glob(pattern: str) -> Any:
    import re2

    if len(pattern) > LONGEST:
        raise BadPattern(f"longer than {LONGEST} characters")
    options = re2.Options()
    options.dot_nl = True
    expression = "".join({"*": ".*", "?": "."}.get(sign) or re2.escape(sign) for sign in pattern)
    try:
        return re2.compile(expression, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise BadPattern(f"cannot be used ({error})") from None


class RuleSettings(Section):
    """One rule; omitted conditions always match. The first rule that matches decides."""

    tool: str = Field(
        default="*", min_length=1, max_length=200, description="Name of the tool; * and ? as in file names"
    )
    command: tuple[str, ...] = Field(
        default=(), max_length=50, description="For bash: words of the commands, as in `git status *`"
    )
    arguments: dict[str, str] = Field(
        default={}, max_length=20, description="Argument -> regular expression (RE2); all must match"
    )
    speaker: Literal["admin", "member"] | None = None
    place: Literal["group", "dm"] | None = None
    decision: Decision
    reason: str = Field(default="", max_length=300, description="Shown to the model, or to the person who is asked")

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
    """The section `guardrails`. use: module:Class of a provider instead of the rules. rules: checked in order, then the
    built-in ones; default: when none matches. ask_seconds: time for a person to answer before it counts as a denial."""

    use: str = Field(default="", pattern=r"^$|^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", max_length=300)
    rules: tuple[RuleSettings, ...] = Field(default=(), max_length=MOST_RULES)
    builtin: bool = True
    default: Decision = "allow"
    provider_seconds: float = Field(default=5.0, gt=0, le=60)
    ask_seconds: float = Field(default=1800.0, ge=1, le=86_400)
