"""Skills of this machine, as the in-memory sandbox shows them: copies in place of folders. Used by provider.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.files.skills import read_place, skill_roots
from tests.simulators.sandbox.drive import MemoryFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def read_skills(folders: Mapping[str, Path]) -> dict[str, dict[str, MemoryFile]]:
    """The files of each place that is there, by virtual path. Slow: for a thread."""
    return {
        root.virtual: {
            f"{root.virtual}/{path}": MemoryFile(file.data, file.version)
            for path, file in read_place(root.host).files.items()
        }
        for root in skill_roots(folders)
    }
