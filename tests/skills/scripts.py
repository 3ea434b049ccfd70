"""A skill's scripts and a folder to work in, for tests that run several of them one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.skills.running import require_runtime, runtime_python, script

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Bench:
    """skill: its name. What each method gives is what was printed, errors included."""

    skill: str
    folder: Path

    def __post_init__(self) -> None:
        require_runtime()

    def good(self, name: str, *arguments: object) -> str:
        """It has to succeed. name: the script's, without .py."""
        return script(f"{self.skill}/{name}", *arguments, folder=self.folder)

    def bad(self, name: str, *arguments: object) -> str:
        """It has to fail."""
        return script(f"{self.skill}/{name}", *arguments, folder=self.folder, fails=True)

    def look(self, code: str, *arguments: object) -> str:
        """A few lines that open a result with the runtime's packages."""
        return runtime_python("-c", code, *arguments, folder=self.folder).strip()

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path
