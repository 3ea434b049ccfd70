"""Every file of a skill's folder, read without following anything; what is no ordinary file is a finding."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.skills.verdict import Finding, Level

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

MEGABYTE = 1_000_000
MOST_FILES = 300
MOST_BYTES = 20 * MEGABYTE
LARGEST_FILE = 5 * MEGABYTE
DEEPEST = 8
LONGEST_PATH = 300

_SET_ID = stat.S_ISUID | stat.S_ISGID
_HARMLESS_HIDDEN = frozenset({".gitignore", ".gitkeep", ".gitattributes", ".editorconfig", ".DS_Store"})
_BAD_NAME = re.compile(
    r"[\x00-\x1f\x7f\\:]|[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]|[\U000e0000-\U000e0fff\ud800-\udfff]"
)


@dataclass(slots=True)
class Tree:
    """files: path within the folder -> content. findings: what is wrong with the files themselves."""

    files: dict[str, bytes] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    size: int = 0

    def blame(self, rule: str, file: str, level: Level = Level.BLOCK) -> None:
        shown = file.encode("utf-8", "backslashreplace").decode()
        self.findings.append(Finding(level, rule, _BAD_NAME.sub("?", shown)[:LONGEST_PATH]))


def read_tree(folder: Path) -> Tree:
    """All of it. What cannot be read counts against the skill."""
    tree = Tree()
    try:
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        tree.blame("unreadable", ".")
        return tree
    try:
        _walk(tree, top, "", 0)
    finally:
        os.close(top)
    return tree


def tree_of(files: Mapping[str, bytes]) -> Tree:
    """What would be read if these files were there: path within the folder -> content."""
    tree = Tree()
    for path in sorted(files):
        if len(tree.files) >= MOST_FILES:
            tree.blame("too-many-files", ".")
            break
        parts = path.split("/")
        for depth, name in enumerate(parts):
            _check_name(tree, name, "/".join(parts[: depth + 1]))
        if len(parts) > DEEPEST + 1:
            tree.blame("too-deep", path)
        _keep(tree, path, files[path])
    return tree


def _walk(tree: Tree, folder: int, prefix: str, depth: int) -> None:
    for entry in _entries(tree, folder, prefix):
        path = prefix + entry.name
        if len(tree.files) >= MOST_FILES:
            return tree.blame("too-many-files", prefix or ".")
        if tree.size > MOST_BYTES:
            return
        _check_name(tree, entry.name, path)
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError:
            tree.blame("unreadable", path)
            continue
        if mode & _SET_ID:
            tree.blame("set-id", path)
        if stat.S_ISDIR(mode):
            if depth >= DEEPEST:
                tree.blame("too-deep", path)
            else:
                _down(tree, folder, entry.name, path, depth)
        elif stat.S_ISREG(mode):
            _read(tree, folder, entry.name, path)
        else:
            tree.blame("link" if stat.S_ISLNK(mode) else "special-file", path)


def _entries(tree: Tree, folder: int, prefix: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            yield from sorted(found, key=lambda entry: entry.name)
    except OSError:
        tree.blame("unreadable", prefix or ".")


def _down(tree: Tree, folder: int, name: str, path: str, depth: int) -> None:
    try:
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        tree.blame("unreadable", path)
        return
    try:
        _walk(tree, below, f"{path}/", depth + 1)
    finally:
        os.close(below)


def _check_name(tree: Tree, name: str, path: str) -> None:
    if _BAD_NAME.search(name) or len(path) > LONGEST_PATH or name != name.strip():
        tree.blame("bad-name", path)
    if name.startswith(".") and name not in _HARMLESS_HIDDEN:
        tree.blame("hidden-file", path, Level.WARN)
    if name.casefold() == "skill.md" and path != "SKILL.md":
        tree.blame("nested-skill", path)


def _read(tree: Tree, folder: int, name: str, path: str) -> None:
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                return tree.blame("special-file", path)
            data = file.read(LARGEST_FILE + 1)
    except OSError:
        return tree.blame("unreadable", path)
    _keep(tree, path, data)


def _keep(tree: Tree, path: str, data: bytes) -> None:
    if len(data) > LARGEST_FILE:
        tree.blame("too-large", path)
    tree.size += len(data)
    if tree.size > MOST_BYTES:
        tree.blame("too-large", ".")
    tree.files[path] = data
