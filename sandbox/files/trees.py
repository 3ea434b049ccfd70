"""Counting and deleting whole trees created by a hostile program: however deep, wide or strange, without recursion.

Both need only a handful of descriptors at any depth. Runs in worker threads.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.files.beneath import Folder

if TYPE_CHECKING:
    from threading import Event

_PATH = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
_USABLE = stat.S_IRUSR | stat.S_IXUSR
_STARTS = 3
"""Maximum number of attempts to count when folders are moved at the same time."""

Identity = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of a tree: bytes on disk (without a sparse file's holes), inodes (without its top).

    complete: everything was counted. Not so if the count stopped at its limits, if folders kept moving, or if another
    user's folder was inaccessible.
    """

    bytes: int = 0
    inodes: int = 0
    complete: bool = True

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.bytes + other.bytes, self.inodes + other.inodes, self.complete and other.complete)


class _Moved(Exception):
    """A folder is no longer where it was found."""


def usage_of(top: Folder, *, most_inodes: int, stop: Event | None = None) -> Usage:
    """Count a tree, at most that many inodes of it."""
    count = _Count(most_inodes, stop)
    for _ in range(_STARTS):
        count = _Count(most_inodes, stop)
        try:
            count.walk(top)
        except _Moved:
            continue
        return count.usage(complete=not count.full)
    return count.usage(complete=False)


class _Count:
    """Descends by name and ascends by "..", which is verified: memory for names, but one descriptor at any depth."""

    def __init__(self, most_inodes: int, stop: Event | None) -> None:
        self._most = most_inodes
        self._stop = stop
        self._bytes = 0
        self._inodes = 0
        self._linked: set[Identity] = set()
        self._closed = False

    @property
    def full(self) -> bool:
        return self._inodes > self._most or (self._stop is not None and self._stop.is_set())

    def usage(self, *, complete: bool) -> Usage:
        return Usage(self._bytes, self._inodes, complete and not self._closed)

    def walk(self, top: Folder) -> None:
        here = top.folder(".")
        pending = [(_identity(here.fd), self._scan(here))]
        try:
            while pending and not self.full:
                names = pending[-1][1]
                if names:
                    below = self._entered(here, names.pop())
                    if below is not None:
                        here.close()
                        here = below
                        pending.append((_identity(here.fd), self._scan(here)))
                    continue
                pending.pop()
                if pending:
                    above = _above(here, pending[-1][0])
                    here.close()
                    here = above
        finally:
            here.close()

    def _scan(self, folder: Folder) -> list[str]:
        """Count a folder's entries; returns the names of its subfolders."""
        names = []
        with os.scandir(folder.fd) as entries:
            for entry in entries:
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                except PermissionError:  # closed since it was opened
                    self._closed = True
                    break
                self._add(found)
                if stat.S_ISDIR(found.st_mode):
                    names.append(entry.name)
                if self.full:
                    break
        return names

    def _entered(self, folder: Folder, name: str) -> Folder | None:
        """Open the subfolder; None if it is gone, no longer a folder, or another user's and inaccessible."""
        try:
            return opened_up(folder, name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError:
            self._closed = True
            return None
        except OSError as error:
            if error.errno == errno.EXDEV:  # it was moved out of its folder while being opened
                self._closed = True
                return None
            if error.errno == errno.ELOOP:
                return None
            raise

    def _add(self, found: os.stat_result) -> None:
        if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
            identity = (found.st_dev, found.st_ino)
            if identity in self._linked:
                return
            self._linked.add(identity)
        self._inodes += 1
        self._bytes += found.st_blocks * 512


def opened_up(folder: Folder, name: str) -> Folder:
    """Open a folder. If its own owner has no access to it, that is restored, so that it hides nothing."""
    try:
        found = folder.folder(name)
    except PermissionError:
        pass
    else:
        if os.fstat(found.fd).st_mode & _USABLE == _USABLE:
            return found
        found.close()  # otherwise its names could be read, but nothing about their files
    _open_up(folder, name)
    return folder.folder(name)


def _open_up(folder: Folder, name: str) -> None:
    fd = os.open(name, _PATH, dir_fd=folder.fd)
    try:
        os.chmod(f"/proc/self/fd/{fd}", 0o700)  # of exactly this folder: fchmod does not work with O_PATH
    finally:
        os.close(fd)


def _above(folder: Folder, expected: Identity) -> Folder:
    try:
        above = Folder(os.open("..", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder.fd))
    except PermissionError as error:  # closed since it was entered
        raise _Moved from error
    if _identity(above.fd) != expected:
        above.close()
        raise _Moved
    return above


def _identity(fd: int) -> Identity:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def remove_tree(parent: Folder, name: str) -> None:
    """Delete `name` in an open folder, whatever it is; links are removed, never followed. Idempotent.

    Nested folders are first moved up to the top under a fresh name, so that paths stay short and only names have to be
    remembered. Raises OSError if something cannot be deleted.
    """
    found = parent.look(name)
    if found is None:
        return
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=parent.fd)
        return
    with opened_up(parent, name) as top:
        _make_writable(top)
        _empty(top)
    os.rmdir(name, dir_fd=parent.fd)


def _empty(top: Folder) -> None:
    waiting = deque(_clear(top, None))
    while waiting:
        name = waiting.popleft()
        with opened_up(top, name) as folder:
            _make_writable(folder)
            waiting.extend(_clear(folder, top))
        os.rmdir(name, dir_fd=top.fd)


def _clear(folder: Folder, top: Folder | None) -> list[str]:
    """Remove everything except non-empty folders; these are moved to `top`. Returns their names there."""
    left = []
    for name in os.listdir(folder.fd):
        try:
            os.unlink(name, dir_fd=folder.fd)
            continue
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno not in (errno.EISDIR, errno.EPERM):
                raise
        if not _removed_empty(folder, name):
            left.append(name if top is None else _moved(folder, name, top))
    return left


def _removed_empty(folder: Folder, name: str) -> bool:
    try:
        os.rmdir(name, dir_fd=folder.fd)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _moved(folder: Folder, name: str, top: Folder) -> str:
    fresh = secrets.token_hex(12)
    try:
        os.rename(name, fresh, src_dir_fd=folder.fd, dst_dir_fd=top.fd)
    except PermissionError:
        _open_up(folder, name)  # moving a folder to another one changes its "..", which requires write access
        os.rename(name, fresh, src_dir_fd=folder.fd, dst_dir_fd=top.fd)
    return fresh


def _make_writable(folder: Folder) -> None:
    found = os.fstat(folder.fd)
    if stat.S_IMODE(found.st_mode) & 0o700 != 0o700:
        os.fchmod(folder.fd, 0o700)
