"""The files of one place of skills, read with bounds and without following a symbolic link: for a server on another
machine, which cannot show the folder itself.
"""

from __future__ import annotations

import os
import stat
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.files.beneath import Folder
from sandbox.files.problems import Refused
from sandbox.files.reading import version_of
from sandbox.files.searching import Bounds, walk

if TYPE_CHECKING:
    from pathlib import Path

MOST_ENTRIES = 20_000
MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFile:
    """version: as FileInfo's."""

    data: bytes
    executable: bool
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFiles:
    """By path below the place. complete: not cut at the bounds."""

    files: dict[str, SkillFile]
    complete: bool


def read_place(folder: Path, *, most_entries: int = MOST_ENTRIES, most_bytes: int = MOST_BYTES) -> SkillFiles:
    """Symbolic links, and files that cannot be read, are left out. Slow: for a thread."""
    bounds = Bounds(entries=most_entries, bytes=most_bytes)
    files: dict[str, SkillFile] = {}
    try:
        with Folder.at(folder, hard_links=True) as top, closing(walk(top, bounds)) as everything:
            for found in everything:
                if found.kind == "file" and (file := _file(found.folder, found.name, bounds)) is not None:
                    files[found.path] = file
    except (OSError, Refused):  # it is removed or replaced meanwhile
        return SkillFiles(files=files, complete=False)
    return SkillFiles(files=files, complete=not bounds.reached)


def _file(folder: Folder, name: str, bounds: Bounds) -> SkillFile | None:
    try:
        fd, found = folder.file(name)
    except (OSError, Refused):
        return None
    with os.fdopen(fd, "rb") as file:
        if not bounds.take(size=found.st_size):
            return None
        executable = bool(found.st_mode & stat.S_IXUSR)
        return SkillFile(data=file.read(found.st_size), executable=executable, version=version_of(found))
