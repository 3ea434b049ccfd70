"""The places of skills, as shown by the sandboxes of a thread: /mnt/skills/<place>, always read-only.

A missing place is left out, and appears when it is created.
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
"""Maximum size in bytes of one place that is read completely."""
SkillsOf = Callable[[str], Mapping[str, Path]]
"""Maps a thread's id to the folders of its skills, by the names of their places (public, custom, mine)."""


def no_skills(thread_id: str) -> Mapping[str, Path]:
    """The SkillsOf of threads without skills."""
    return {}


def skill_roots(folders: Mapping[str, Path]) -> list[Root]:
    """The places whose folders exist now, ordered by name.

    An operator may have replaced a folder by a link: nobody else can change anything above these folders, or create a
    name in one. Installers (such as uv) and space-saving copies create hard links there.
    """
    real = ((name, Path(os.path.realpath(folder))) for name, folder in sorted(folders.items()))
    return [
        Root(virtual=f"{SKILLS}/{name}", host=folder, read_only=True, of_thread=True, hard_links=True)
        for name, folder in real
        if folder.is_dir()
    ]


def identity(folder: Path) -> str:
    """An identity that differs for every folder at this path; "" while there is none."""
    try:
        found = os.stat(folder)
    except OSError:
        return ""
    return f"{found.st_dev:x}-{found.st_ino:x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFile:
    """A file. version: see FileInfo."""

    data: bytes
    executable: bool
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFiles:
    """Files by their path below the place. complete: not cut off by the limits."""

    files: dict[str, SkillFile]
    complete: bool


def read_place(folder: Path, *, most_entries: int = MOST_ENTRIES, most_bytes: int = MOST_BYTES) -> SkillFiles:
    """Read a place, without symbolic links and unreadable files. Slow: run it in a thread."""
    bounds = Bounds(entries=most_entries, bytes=most_bytes)
    files: dict[str, SkillFile] = {}
    try:
        with Folder.at(folder, hard_links=True) as top, closing(walk(top, bounds)) as everything:
            for found in everything:
                if found.kind == "file" and (file := _file(found.folder, found.name, bounds)) is not None:
                    files[found.path] = file
    except (OSError, Refused):  # it was removed or replaced during the reading
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
