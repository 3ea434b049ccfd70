"""The places that skills are in, as the sandboxes of a thread show them: /mnt/skills/<place>, always read-only.

A place that is not there is left out, and shows up when it comes to be.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sandbox.base import SKILLS
from sandbox.files.beneath import Folder, Refused
from sandbox.files.content import version_of
from sandbox.files.paths import Root
from sandbox.files.searching import Bounds, walk

MOST_ENTRIES = 20_000
MOST_BYTES = 64 << 20
"""Of one place that is read whole."""
SkillsOf = Callable[[str], Mapping[str, Path]]
"""From a thread's id to the folders of the skills that it has, by the names of their places (public, custom, mine)."""


def no_skills(thread_id: str) -> Mapping[str, Path]:
    """Where there are none."""
    return {}


def skill_roots(folders: Mapping[str, Path]) -> list[Root]:
    """The places whose folders are there now, in the order of their names.

    An operator may have put a link in a folder's place: nobody else can change anything above these folders, or make a
    name in one. Installers (uv, for one) and copies that save room make hard links of what they put there.
    """
    real = ((name, Path(os.path.realpath(folder))) for name, folder in sorted(folders.items()))
    return [
        Root(virtual=f"{SKILLS}/{name}", host=folder, read_only=True, of_thread=True, hard_links=True)
        for name, folder in real
        if folder.is_dir()
    ]


def identity(folder: Path) -> str:
    """Differs between all folders that ever stood there; "" while there is none."""
    try:
        found = os.stat(folder)
    except OSError:
        return ""
    return f"{found.st_dev:x}-{found.st_ino:x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFile:
    """version: as FileInfo's."""

    data: bytes
    executable: bool
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFiles:
    """Files by their path below the place. complete: not cut at the bounds."""

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
