"""Where skills stand below a folder of them: each in a folder with a SKILL.md, at the top or in folders of folders.

Blocking. Links are not followed, and how deep and how wide is looked is bounded.
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
"""Folders from the top to a skill's own, that one included."""
LONGEST_FOLDER = 64
"""Characters of the name of a folder of folders, which stands in the list that the model reads."""
MOST_FOLDERS = 1000
"""Folders that are looked into; the others are left out, which is reported."""


@dataclass(frozen=True, slots=True)
class Places:
    """paths: of skills' folders, below the folder that was looked into, with `/` between names; those nearer to the top
    come first, so that the first of a name is the one that counts. Folders that no skill is in, and links, are among
    them: what is wrong with them is told when they are read. problems: of the whole."""

    paths: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()

    def named(self, name: str) -> str | None:
        """The path of the skill of that name, None where there is none."""
        return next((path for path in self.paths if name_of(path) == name), None)


@dataclass(slots=True)
class _Look:
    """left: how many folders may still be looked into."""

    left: int = MOST_FOLDERS
    problems: list[Problem] = field(default_factory=list)


def name_of(path: str) -> str:
    """The name that a skill at this path has to have."""
    return path.rpartition("/")[2]


def find_places(folder: Path) -> Places:
    """All places below a folder, which may be missing."""
    look, top = _Look(), os.fspath(folder)
    try:
        found = [path for name, is_link in _entries(top) for path in _below(look, top, name, is_link)[0]]
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return Places()
        return Places(problems=(Problem("", "", f"cannot be read: {os.strerror(error.errno or 0)}"),))
    if look.left < 0:
        more = f"holds more than {MOST_FOLDERS} folders that are no skills; those after them are left out"
        look.problems.append(Problem("", "", more))
    return Places(tuple(sorted(found, key=lambda path: (path.count("/"), path))), tuple(look.problems))


def _below(look: _Look, top: str, path: str, is_link: bool) -> tuple[list[str], bool]:
    """The places at and below a path, and whether there is a skill among them: a folder in whose folders no skill is
    counts as one that lacks its SKILL.md, and not each of its folders."""
    # Texts, not paths: it is looked at each run, and to join a path costs more than to look.
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
    """Why it is not looked into a folder that may hold skills, "" where it is."""
    name = name_of(path)
    if path.count("/") + 1 >= DEEPEST:
        return f"holds folders deeper than {DEEPEST}, which are not looked into"
    if len(name) > LONGEST_FOLDER or not all(sign.isalnum() or sign in "-_." for sign in name):
        return "is not looked into: a folder of skills has a name of letters, digits, -, _ and . only"
    return ""


def _entries(folder: str) -> Iterator[tuple[str, bool]]:
    """Names of folders and links, each with whether it is a link, sorted. Raises OSError."""
    with os.scandir(folder) as entries:
        known = sorted((entry.name, entry.is_symlink(), entry.is_dir(follow_symlinks=False)) for entry in entries)
    for name, is_link, is_folder in known:
        if not name.startswith((".", "_")) and (is_link or is_folder):
            yield name, is_link
