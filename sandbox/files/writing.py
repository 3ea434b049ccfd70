"""Writes one file of a sandbox's folder if there is room: in worker threads, one at a time for each path."""

from __future__ import annotations

import os
import stat
import threading
import time
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from sandbox.base import NEW, ProblemCode
from sandbox.files.beneath import Refused, require_plain
from sandbox.files.content import CHUNK, decoded, encoded, opened, replaced, version_of
from sandbox.files.trees import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sandbox.files.beneath import Folder
    from sandbox.files.paths import Place


LONGEST_UPDATE = 32 << 20
"""Maximum size in bytes of a file in which text is replaced, since it is held in memory for that."""

_REST = 20
"""A count is valid for this many times as long as it took, so that counting costs at most a twentieth of the time."""
_NEAR = 0.9
"""The fraction of the share above which usage is counted at each write, since commands may have freed space."""


class Disk:
    """Room outside a thread's own folders: limited only by the disk's minimum free space. Sizes in bytes."""

    def __init__(self, largest_file: int, keep_free: int) -> None:
        self.largest_file = largest_file
        self._keep_free = keep_free

    def refresh(self) -> None:
        """Count again if needed; in a worker thread, with the gateway's own rights."""

    def require(self, folder: Folder, size: int, inodes: int) -> None:
        """Claim that many additional bytes and inodes. Raises Refused(FULL)."""
        if size <= 0 and not inodes:
            return
        disk = os.fstatvfs(folder.fd)
        if disk.f_bavail * disk.f_frsize - size < self._keep_free:
            raise Refused(ProblemCode.FULL, "the machine's disk is almost full")
        if disk.f_files and disk.f_favail < inodes + 1:
            raise Refused(ProblemCode.FULL, "the machine's disk has no room for another file")


class Share(Disk):
    """Room in a thread's own folders. count: counts them."""

    def __init__(
        self, count: Callable[[], Usage], *, most_bytes: int, most_inodes: int, largest_file: int, keep_free: int
    ) -> None:
        super().__init__(largest_file, keep_free)
        self._count = count
        self._most = Usage(most_bytes, most_inodes)
        self._usage = Usage()
        self._good_until = 0.0
        self._lock = threading.Lock()

    def refresh(self) -> None:
        with self._lock:
            if time.monotonic() >= self._good_until or self._is_near():
                begun = time.monotonic()
                self._usage = self._count()
                self._good_until = time.monotonic() + _REST * (time.monotonic() - begun)

    def require(self, folder: Folder, size: int, inodes: int) -> None:
        super().require(folder, size, inodes)
        with self._lock:
            after = self._usage + Usage(size, inodes)
            if (size > 0 and after.bytes > self._most.bytes) or (inodes > 0 and after.inodes > self._most.inodes):
                raise Refused(ProblemCode.FULL, self._explained())
            self._usage = after

    def _is_near(self) -> bool:
        return self._usage.bytes > _NEAR * self._most.bytes or self._usage.inodes > _NEAR * self._most.inodes

    def _explained(self) -> str:
        megabyte = 1 << 20
        return (
            f"{self._usage.bytes / megabyte:.1f} of {self._most.bytes / megabyte:.0f} MB"
            f" and {self._usage.inodes} of {self._most.inodes} files are used"
        )


@dataclass(frozen=True, slots=True)
class Written:
    size: int
    version: str
    replaced: int = 0


def write(
    top: Folder, place: Place, content: str | bytes, *, append: bool, expected: str | None, room: Disk
) -> Written:
    """Write or append to a file and create the folders above it."""
    data = encoded(content)
    with _above(top, place, room) as folder:
        found = _checked(folder, place.name, expected)
        if append and found is not None:
            with opened(folder, place.name, room.largest_file) as file:
                _require_same(found, file.found)
                pieces = chain(file.pieces(), [data])
                return _put(folder, place.name, pieces, file.size + len(data), found, expected, room)
        return _put(folder, place.name, [data], len(data), found, expected, room)


def update(
    top: Folder, place: Place, old: str, new: str, *, everywhere: bool, expected: str | None, room: Disk
) -> Written:
    """Replace text in a file."""
    encoded(old + new)
    most = min(room.largest_file, LONGEST_UPDATE)
    with top.folder(place.parent) as folder, opened(folder, place.name, most) as file:
        if expected is not None and expected != file.version:
            raise Refused(ProblemCode.STALE)
        text, count = replaced(decoded(b"".join(file.pieces())), old, new, everywhere=everywhere)
        data = encoded(text)
        written = _put(folder, place.name, [data], len(data), file.found, file.version, room)
        return Written(written.size, written.version, count)


def _above(top: Folder, place: Place, room: Disk) -> Folder:
    try:
        return top.folder(place.parent)
    except FileNotFoundError:
        room.require(top, 0, place.path.count("/"))
        return top.make_folders(place.parent)


def _checked(folder: Folder, name: str, expected: str | None) -> os.stat_result | None:
    found = folder.look(name)
    if found is not None:
        require_plain(found)
    if expected is None:
        return found
    if (NEW if found is None else version_of(found)) != expected:
        raise Refused(ProblemCode.STALE, "the file does not exist" if found is None else "")
    return found


def _require_same(found: os.stat_result, opened_now: os.stat_result) -> None:
    if (found.st_dev, found.st_ino) != (opened_now.st_dev, opened_now.st_ino):
        raise Refused(ProblemCode.STALE, "it was replaced in the meantime")


def _put(
    folder: Folder,
    name: str,
    pieces: Iterable[bytes],
    size: int,
    found: os.stat_result | None,
    expected: str | None,
    room: Disk,
) -> Written:
    if size > room.largest_file:
        raise Refused(ProblemCode.TOO_LARGE, f"{size} bytes; a file may have at most {room.largest_file}")
    room.require(folder, size - (found.st_size if found else 0), 0 if found else 1)

    def fill(fd: int) -> None:
        for piece in pieces:
            _write_all(fd, piece)
        if expected is not None:
            _checked(folder, name, expected)  # again, after all slow steps

    mode = stat.S_IMODE(found.st_mode) & 0o777 if found else None
    try:
        written = folder.put(name, fill, mode=mode, fresh=expected == NEW)
    except FileExistsError:
        raise Refused(ProblemCode.STALE, "the file already exists") from None
    return Written(size, version_of(written))


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view[:CHUNK]) :]
