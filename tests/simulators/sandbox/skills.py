"""Skills of this machine, as the in-memory sandbox shows them: copies instead of folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.files.skills import read_place, skill_roots
from tests.simulators.sandbox.drive import MemoryFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def read_skills(folders: Mapping[str, Path]) -> dict[str, dict[str, MemoryFile]]:
    """The files of each existing folder, by virtual path. Slow: run it in a thread."""
    return {
        root.virtual: {
            f"{root.virtual}/{path}": MemoryFile(file.data, file.version)
            for path, file in read_place(root.host).files.items()
        }
        for root in skill_roots(folders)
    }
