"""Finds skills in a folder: each in a folder with a SKILL.md, at the top or in folders of folders.

Blocking. Links are not followed, and depth and breadth of the search are limited.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.skills.document import SKILL_FILE, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEEPEST = 5
"""Levels from the top to a skill's own folder, inclusive."""
LONGEST_FOLDER = 64
"""Characters of the name of a folder of folders, which is part of the list that the model reads."""
MOST_FOLDERS = 1000
"""Folders that are searched; the others are omitted, which is reported."""


@dataclass(frozen=True, slots=True)
class Places:
    """paths: of skills' folders, relative to the searched one, with `/` between names; those nearer to the top come
    first, so that the first one with a name counts. They include folders without a skill, and links: their problems are
    reported when they are read. problems: of the whole."""

    paths: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()

    def named(self, name: str) -> str | None:
        """The path of the skill with that name, None if there is none."""
        return next((path for path in self.paths if name_of(path) == name), None)


@dataclass(slots=True)
class _Look:
    """A search in progress. left: number of folders that may still be searched."""

    left: int = MOST_FOLDERS
    problems: list[Problem] = field(default_factory=list)


def name_of(path: str) -> str:
    """The name that a skill at this path must have."""
    return path.rpartition("/")[2]


def find_places(folder: Path) -> Places:
    """All places in a folder, which may be missing."""
    look, top = _Look(), os.fspath(folder)
    try:
        found = [path for name, is_link in _entries(top) for path in _below(look, top, name, is_link)[0]]
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return Places()
        return Places(problems=(Problem("", "", f"cannot be read: {os.strerror(error.errno or 0)}"),))
    if look.left < 0:
        more = f"holds more than {MOST_FOLDERS} folders that are not skills; those after them are left out"
        look.problems.append(Problem("", "", more))
    return Places(tuple(sorted(found, key=lambda path: (path.count("/"), path))), tuple(look.problems))


def _below(look: _Look, top: str, path: str, is_link: bool) -> tuple[list[str], bool]:
    """The places at and below a path, and whether a skill is among them: a folder without any skill below it counts as
    one that lacks its SKILL.md, instead of each of its subfolders."""
    # Strings, not paths: this runs for each run, and joining a path costs more than checking it.
    folder = f"{top}/{path}"
    if is_link or os.path.lexists(f"{folder}/{SKILL_FILE}"):
        return [path], True
    look.left -= 1
    if look.left < 0:
        return [], False
    try:
        with os.scandir(folder) as entries:
            misspelt = any(entry.name.casefold() == SKILL_FILE.casefold() for entry in entries)
        inside = [] if misspelt else list(_entries(folder))
    except OSError:
        return [path], False
    if inside and (why := _closed(path)):
        look.problems.append(Problem(path, "", why))
        return [path], False
    found = [_below(look, top, f"{path}/{name}", is_link) for name, is_link in inside]
    if any(has_skill for _, has_skill in found):
        return [each for paths, _ in found for each in paths], True
    return [path], False


def _closed(path: str) -> str:
    """Why a folder that may contain skills is not searched, "" if it is."""
    name = name_of(path)
    if path.count("/") + 1 >= DEEPEST:
        return f"holds folders deeper than {DEEPEST}, which are not searched"
    if len(name) > LONGEST_FOLDER or not all(sign.isalnum() or sign in "-_." for sign in name):
        return "is not searched: a folder of skills is named with letters, digits, -, _ and . only"
    return ""


def _entries(folder: str) -> Iterator[tuple[str, bool]]:
    """Names of folders and links, each with whether it is a link, sorted. Raises OSError."""
    with os.scandir(folder) as entries:
        known = sorted((entry.name, entry.is_symlink(), entry.is_dir(follow_symlinks=False)) for entry in entries)
    for name, is_link, is_folder in known:
        if not name.startswith((".", "_")) and (is_link or is_folder):
            yield name, is_link
