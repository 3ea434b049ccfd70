"""Verdict of a check of a skill's content: allow, warn or block, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Level(IntEnum):
    """Severity of a finding; the most severe one determines the verdict."""

    ALLOW = 0
    WARN = 1
    """The skill may be stored, but stays off until an administrator turns it on."""
    BLOCK = 2
    """The skill is not stored at all."""

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found.

    rule: its name.
    file: relative to the skill's folder.
    line: from 1, 0 for the whole file.
    excerpt: on one line, without secrets and invisible characters.
    """

    level: Level
    rule: str
    file: str
    line: int = 0
    excerpt: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{self.rule} in {place}" + (f": {self.excerpt}" if self.excerpt else "")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a check. findings: most severe first. scripts: files that can be run."""

    level: Level
    findings: tuple[Finding, ...] = ()
    scripts: tuple[str, ...] = ()

    @property
    def reasons(self) -> list[str]:
        """The findings that determined the level, as text."""
        return [str(finding) for finding in self.findings if finding.level == self.level]


def verdict_of(findings: Iterable[Finding], scripts: Iterable[str] = ()) -> Verdict:
    """The verdict that these findings add up to."""
    by_level = sorted(findings, key=lambda finding: (-finding.level, finding.file, finding.line, finding.rule))
    level = by_level[0].level if by_level else Level.ALLOW
    return Verdict(level, tuple(by_level), tuple(scripts))
