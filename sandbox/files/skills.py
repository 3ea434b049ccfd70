"""The places that skills are in, as the sandboxes of a thread show them: /mnt/skills/<place>, always read-only.

A place that is not there is left out, and shows up when it comes to be.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from sandbox.base import SKILLS
from sandbox.files.paths import Root

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
    """Another one for every folder that ever stood there; "" while there is none."""
    try:
        found = os.stat(folder)
    except OSError:
        return ""
    return f"{found.st_dev:x}-{found.st_ino:x}"
