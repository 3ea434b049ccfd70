"""Problems of a configuration: findings, their paths, and the error that carries all of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Path = tuple[str | int, ...]
"""The location of a value in the tree: keys and list indices from the root."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault at a path in the tree, before its file or variable is known. Never contains a value."""

    path: Path
    message: str
    suggestion: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigProblem:
    """One fault for a person to fix.

    file: as it was given, or "environment" or "command line". line: from 1, None if unknown. key: dotted path, or the
    environment variable. message and suggestion never contain a configured value.
    """

    file: str
    key: str
    message: str
    line: int | None = None
    suggestion: str = ""

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        parts = [where, self.key, self.message] if self.key else [where, self.message]
        return ": ".join(parts) + (f"; {self.suggestion}" if self.suggestion else "")


class ConfigError(Exception):
    """The configuration cannot be used. The text has one line for each problem and no secret."""

    def __init__(self, problems: Iterable[ConfigProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def dotted(path: Path) -> str:
    """`channels.support.token`, `models[0].name`; a key that would break the line is shown quoted."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += ("." if text else "") + (step if step.isprintable() and step.strip() == step else ascii(step))
    return text


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """The nearest valid word as a suggestion, or else all of them."""
    names = sorted(known)
    near = get_close_matches(wrong.lower(), names, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]}?"
    return f"known: {', '.join(names)}" if names else ""
