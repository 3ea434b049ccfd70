"""Copying a tree that a hostile program made, and may be changing: links are copied as links and never followed."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.files.beneath import Folder, Refused

if TYPE_CHECKING:
    from threading import Event

DEEPEST = 40
CHUNK = 1 << 20


class TooMuch(Exception):
    """There is more than may be copied."""


@dataclass(slots=True)
class Copying:
    """What may still be copied. complete: nothing was left out: what is closed to its owner, several names of one file,
    pipes and the like, and what lies too deep."""

    bytes: int
    inodes: int
    stop: Event
    complete: bool = True

    def take(self, size: int) -> None:
        """Raises TooMuch."""
        self.bytes -= size
        if self.bytes < 0 or self.inodes < 0 or self.stop.is_set():
            raise TooMuch


def copy_tree(source: Folder, target: Folder, copying: Copying, depth: int = 0) -> None:
    """Copy what is in one open folder into another, which is empty and which nobody else can reach. Raises TooMuch, and
    OSError where the target cannot be written."""
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
    except OSError:  # it is none any more
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
        with os.fdopen(into, "wb") as file:
            while chunk := os.read(fd, CHUNK):
                copying.take(len(chunk))
                file.write(chunk)
            os.fchmod(into, stat.S_IMODE(found.st_mode) & 0o777 | 0o600)
    finally:
        os.close(fd)
