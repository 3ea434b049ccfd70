"""What a conversion kept and what it could not: told after each one, so that nobody finds out later."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class CannotConvert(Exception):
    """The text says why, and what to do instead."""


@dataclass
class Report:
    """written: files. kept: what was found and is in them. lost: what was found and is not. notes: to be looked at."""

    written: list[Path] = field(default_factory=list)
    kept: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def lose(self, what: str, count: int = 1) -> None:
        """Count what is not taken over."""
        self.lost[what] = self.lost.get(what, 0) + count

    def lines(self) -> list[str]:
        """For the person who reads the output."""
        lines = [f"written: {path}" for path in self.written]
        if self.kept:
            lines.append("kept: " + _counted(self.kept))
        if any(self.lost.values()):
            lines.append("NOT taken over: " + _counted(self.lost))
        return lines + [f"note: {note}" for note in self.notes]


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items() if number)
