"""A skill's files as a value: read without following links, compared by digest, and written atomically.

Blocking. A reader sees the old or the new folder, whenever the process dies.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.files.durable import NEW, sync_folder
from harness.skills.verdict import Finding, Level

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    Files = Mapping[str, bytes]
    """Content by path within the skill's folder."""

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
BROKEN = "broken"
"""Pseudo-digest of a folder that cannot be read, or contains links and the like."""
_OLD = ".old-"
_EXCHANGE = 2
_AT_FDCWD = -100
_CANNOT = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM})


@dataclass(slots=True)
class Tree:
    """Files of a folder, path -> content, and findings about the files themselves."""

    files: dict[str, bytes] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    size: int = 0

    def report(self, rule: str, file: str, level: Level = Level.BLOCK) -> None:
        shown = file.encode("utf-8", "backslashreplace").decode()
        self.findings.append(Finding(level, rule, _BAD_NAME.sub("?", shown)[:LONGEST_PATH]))


def read_tree(folder: Path) -> Tree:
    """Read a whole folder. Anything unreadable counts against the skill."""
    tree = Tree()
    try:
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        tree.report("unreadable", ".")
        return tree
    try:
        _walk(tree, top, "", 0)
    finally:
        os.close(top)
    return tree


def tree_of(files: Mapping[str, bytes]) -> Tree:
    """The tree of a folder with these files."""
    tree = Tree()
    for path in sorted(files):
        if len(tree.files) >= MOST_FILES:
            tree.report("too-many-files", ".")
            break
        parts = path.split("/")
        for depth, name in enumerate(parts):
            _check_name(tree, name, "/".join(parts[: depth + 1]))
        if len(parts) > DEEPEST + 1:
            tree.report("too-deep", path)
        _keep(tree, path, files[path])
    return tree


def _walk(tree: Tree, folder: int, prefix: str, depth: int) -> None:
    for entry in _entries(tree, folder, prefix):
        path = prefix + entry.name
        if len(tree.files) >= MOST_FILES:
            return tree.report("too-many-files", prefix or ".")
        if tree.size > MOST_BYTES:
            return
        _check_name(tree, entry.name, path)
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError:
            tree.report("unreadable", path)
            continue
        if mode & _SET_ID:
            tree.report("set-id", path)
        if stat.S_ISDIR(mode):
            if depth >= DEEPEST:
                tree.report("too-deep", path)
            else:
                _down(tree, folder, entry.name, path, depth)
        elif stat.S_ISREG(mode):
            _read(tree, folder, entry.name, path)
        else:
            tree.report("link" if stat.S_ISLNK(mode) else "special-file", path)


def _entries(tree: Tree, folder: int, prefix: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            yield from sorted(found, key=lambda entry: entry.name)
    except OSError:
        tree.report("unreadable", prefix or ".")


def _down(tree: Tree, folder: int, name: str, path: str, depth: int) -> None:
    try:
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        tree.report("unreadable", path)
        return
    try:
        _walk(tree, below, f"{path}/", depth + 1)
    finally:
        os.close(below)


def _check_name(tree: Tree, name: str, path: str) -> None:
    if _BAD_NAME.search(name) or len(path) > LONGEST_PATH or name != name.strip():
        tree.report("bad-name", path)
    if name.startswith(".") and name not in _HARMLESS_HIDDEN:
        tree.report("hidden-file", path, Level.WARN)
    if name.casefold() == "skill.md" and path != "SKILL.md":
        tree.report("nested-skill", path)


def _read(tree: Tree, folder: int, name: str, path: str) -> None:
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                return tree.report("special-file", path)
            data = file.read(LARGEST_FILE + 1)
    except OSError:
        return tree.report("unreadable", path)
    _keep(tree, path, data)


def _keep(tree: Tree, path: str, data: bytes) -> None:
    if len(data) > LARGEST_FILE:
        tree.report("too-large", path)
    tree.size += len(data)
    if tree.size > MOST_BYTES:
        tree.report("too-large", ".")
    tree.files[path] = data


def digest_of(files: Files) -> str:
    """Digest of names and contents, sha256 in hex."""
    whole = hashlib.sha256()
    for path in sorted(files):
        whole.update(
            f"{len(path)}:{path}:{hashlib.sha256(files[path]).hexdigest()}\n".encode("utf-8", "surrogateescape")
        )
    return whole.hexdigest()


def read_files(folder: Path) -> Files | None:
    """Files of a skill's folder; None if it is missing or contains more than files."""
    tree = read_tree(folder)
    return None if any(finding.level is Level.BLOCK for finding in tree.findings) else tree.files


def digest_on_disk(folder: Path) -> str:
    """Digest of a folder's files; BROKEN if it contains more than files."""
    files = read_files(folder)
    return BROKEN if files is None else digest_of(files)


def write_files(folder: Path, files: Files) -> None:
    """Write files into a new folder, readable by the sandboxes' users under any umask."""
    folder.mkdir()
    for path, data in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(target, flags, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
    for below, _, _ in os.walk(folder):
        os.chmod(below, 0o755)


def put(home: Path, name: str, files: Files | None) -> None:
    """Make a skill's folder contain exactly these files; None: delete it. The caller holds the home's lock."""
    recover(home)
    target = home / name
    aside = home / f"{_OLD}{name}-{secrets.token_hex(4)}"
    if files is None:
        target.rename(aside)
    else:
        fresh = home / f"{NEW}{name}-{secrets.token_hex(4)}"
        write_files(fresh, files)
        if not target.exists():
            fresh.rename(target)
        elif _exchanged(fresh, target):
            aside = fresh
        else:
            target.rename(aside)
            fresh.rename(target)
    sync_folder(home)
    _delete(aside)


def recover(home: Path) -> None:
    """Clean up after a process that died. A folder that was set aside is restored if its replacement did not arrive; if
    there was no replacement, it was deleted on purpose."""
    coming = {_name_of(left, NEW): left for left in home.glob(f"{NEW}*")}
    for left in home.glob(f"{_OLD}*"):
        name = _name_of(left, _OLD)
        if name in coming and not (home / name).exists():
            left.rename(home / name)
        else:
            _delete(left)
    for left in coming.values():
        _delete(left)


def _delete(path: Path) -> None:
    """Delete a folder, or a link in its place."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def _name_of(left: Path, prefix: str) -> str:
    return left.name.removeprefix(prefix).rpartition("-")[0]


def _exchanged(one: Path, other: Path) -> bool:
    """Swap two folders atomically, with renameat2(2); False if the file system does not support it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    done = libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE)
    if done != 0 and ctypes.get_errno() not in _CANNOT:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return bool(done == 0)
