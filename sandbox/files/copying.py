"""Copying a tree created, and perhaps being changed, by a hostile program: links are copied, never followed."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.files.beneath import Folder, Refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

DEEPEST = 40
CHUNK = 1 << 20
LOOK_EVERY = 16 << 20
"""Bytes between two checks of the free disk space: others write too."""


class TooMuch(Exception):
    """The tree is larger than may be copied."""


@dataclass(slots=True)
class Copying:
    """The remaining allowance. free: returns the available bytes of the disk; None: no limit. complete: nothing was
    left out, such as entries closed to their owner, files with several names, pipes and the like, and those nested too
    deeply. unseen: bytes since the disk was checked."""

    bytes: int
    inodes: int
    stop: Event
    free: Callable[[], int] | None = None
    complete: bool = True
    unseen: int = LOOK_EVERY

    def take(self, size: int) -> None:
        """Use up a part of the allowance. Raises TooMuch."""
        self.bytes -= size
        self.unseen += size
        if self.free is not None and self.unseen >= LOOK_EVERY:
            self.bytes, self.unseen = min(self.bytes, self.free() - size), 0
        if self.bytes < 0 or self.inodes < 0 or self.stop.is_set():
            raise TooMuch


def copy_tree(source: Folder, target: Folder, copying: Copying, depth: int = 0) -> None:
    """Copy the contents of an open folder into another one, which is empty and accessible to no one else. Raises
    TooMuch, and OSError if the target cannot be written."""
    with os.scandir(source.fd) as entries:
        names = []
        for entry in entries:
            copying.inodes -= 1
            copying.take(0)
            names.append(entry.name)
    for name in names:
        try:
            found = source.look(name)
        except (OSError, Refused):
            copying.complete = False
            continue
        if found is None:
            continue
        if stat.S_ISDIR(found.st_mode):
            _copy_folder(source, target, name, copying, depth)
        elif stat.S_ISLNK(found.st_mode):
            _copy_link(source, target, name, copying)
        else:
            _copy_file(source, target, name, copying)


def _copy_folder(source: Folder, target: Folder, name: str, copying: Copying, depth: int) -> None:
    if depth == DEEPEST:
        copying.complete = False
        return
    try:
        below = source.folder(name)
    except (OSError, Refused):
        copying.complete = False
        return
    with below:
        os.mkdir(name, 0o700, dir_fd=target.fd)
        with target.folder(name) as into:
            copy_tree(below, into, copying, depth + 1)
            os.fchmod(into.fd, stat.S_IMODE(os.fstat(below.fd).st_mode) & 0o777 | 0o700)


def _copy_link(source: Folder, target: Folder, name: str, copying: Copying) -> None:
    try:
        leads_to = os.readlink(name, dir_fd=source.fd)
    except OSError:  # it is no longer a link
        copying.complete = False
        return
    os.symlink(leads_to, name, dir_fd=target.fd)


def _copy_file(source: Folder, target: Folder, name: str, copying: Copying) -> None:
    try:
        fd, found = source.file(name)
    except (OSError, Refused):
        copying.complete = False
        return
    try:
        into = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=target.fd)
        try:
            _copy_content(fd, into, found.st_size, copying)
            os.fchmod(into, stat.S_IMODE(found.st_mode) & 0o777 | 0o600)
        finally:
            os.close(into)
    finally:
        os.close(fd)


def _copy_content(source: int, target: int, size: int, copying: Copying) -> None:
    """Copy a file's content. Holes stay holes: a file of any size may take no space on the disk."""
    place = 0
    while place < size:
        copying.take(0)
        try:
            place = os.lseek(source, place, os.SEEK_DATA)
            end = min(size, os.lseek(source, place, os.SEEK_HOLE))
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left, or the file was truncated
                break
            raise
        while place < end and (chunk := os.pread(source, min(CHUNK, end - place), place)):
            copying.take(len(chunk))
            place += os.pwrite(target, chunk, place)
    os.ftruncate(target, min(size, os.fstat(source).st_size))
