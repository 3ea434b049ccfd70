"""A skill's files as a value, and how a folder becomes another one at once; for editing.py, pins.py and installing.py.

Blocking. A reader sees the folder as it was or as it will be, whenever the process dies.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import secrets
import shutil
from typing import TYPE_CHECKING

from harness.skills.scanning.tree import read_tree
from harness.skills.verdict import Level

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    Files = Mapping[str, bytes]
    """Path within the skill's folder -> content."""

BROKEN = "broken"
"""Instead of the digest of a folder that cannot be read, or has links and the like."""
_NEW, _OLD = ".new-", ".old-"
_EXCHANGE = 2
_AT_FDCWD = -100
_CANNOT = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM})


def digest_of(files: Files) -> str:
    """Of names and contents, sha256 in hex."""
    whole = hashlib.sha256()
    for path in sorted(files):
        whole.update(
            f"{len(path)}:{path}:{hashlib.sha256(files[path]).hexdigest()}\n".encode("utf-8", "surrogateescape")
        )
    return whole.hexdigest()


def read_files(folder: Path) -> Files | None:
    """None where there is no such folder, or one that is more than files."""
    tree = read_tree(folder)
    return None if any(finding.level is Level.BLOCK for finding in tree.findings) else tree.files


def digest_on_disk(folder: Path) -> str:
    """BROKEN for what could be no skill that was written here."""
    files = read_files(folder)
    return BROKEN if files is None else digest_of(files)


def write_files(folder: Path, files: Files) -> None:
    """Into a folder that is made for it. Readable for whoever runs commands, whatever the process's mask says."""
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
    """Make a skill's folder hold exactly these files; None: it goes. Whoever calls holds the home's lock."""
    recover(home)
    target = home / name
    aside = home / f"{_OLD}{name}-{secrets.token_hex(4)}"
    if files is None:
        target.rename(aside)
    else:
        fresh = home / f"{_NEW}{name}-{secrets.token_hex(4)}"
        write_files(fresh, files)
        if not target.exists():
            fresh.rename(target)
        elif _exchanged(fresh, target):
            aside = fresh
        else:
            target.rename(aside)
            fresh.rename(target)
    _sync(home)
    _delete(aside)


def recover(home: Path) -> None:
    """Tidy up what a process left that died. What was set aside comes back if its successor did not get
    there; without one it was deleted on purpose."""
    coming = {_name_of(left, _NEW): left for left in home.glob(f"{_NEW}*")}
    for left in home.glob(f"{_OLD}*"):
        name = _name_of(left, _OLD)
        if name in coming and not (home / name).exists():
            left.rename(home / name)
        else:
            _delete(left)
    for left in coming.values():
        _delete(left)


def _delete(path: Path) -> None:
    """A folder, or a link that stood in the place of one."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def _name_of(left: Path, prefix: str) -> str:
    return left.name.removeprefix(prefix).rpartition("-")[0]


def write_atomically(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """The file holds this or what it held; what a crash leaves beside it is for `recover`."""
    fresh = path.with_name(f"{_NEW}{path.name}-{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    _sync(path.parent)


def _exchanged(one: Path, other: Path) -> bool:
    """Swap two folders in one step, by renameat2(2); False where the file system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    done = libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE)
    if done != 0 and ctypes.get_errno() not in _CANNOT:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return bool(done == 0)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
