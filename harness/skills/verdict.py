"""What a check of a skill's content found: allow, warn or block, and why; made by scan.py and judge.py. Light."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Level(IntEnum):
    """The severest finding makes the verdict."""

    ALLOW = 0
    WARN = 1
    """It may be kept, and stays off until an administrator turns it on."""
    BLOCK = 2
    """It is not kept at all."""

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """rule: its name. file: relative to the skill's folder. line: from 1, 0 for the whole file. excerpt: on one line,
    without secrets and without signs that cannot be seen."""

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
    """findings: the severest first. scripts: files that can be run."""

    level: Level
    findings: tuple[Finding, ...] = ()
    scripts: tuple[str, ...] = ()

    @property
    def reasons(self) -> list[str]:
        """What made the level."""
        return [str(finding) for finding in self.findings if finding.level == self.level]


def verdict_of(findings: Iterable[Finding], scripts: Iterable[str] = ()) -> Verdict:
    """What these findings add up to."""
    by_level = sorted(findings, key=lambda finding: (-finding.level, finding.file, finding.line, finding.rule))
    level = by_level[0].level if by_level else Level.ALLOW
    return Verdict(level, tuple(by_level), tuple(scripts))
