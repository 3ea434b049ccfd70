"""Writes one file of a sandbox's folder; called in worker threads by local.py, one at a time for each path."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from sandbox.base import NEW, ProblemCode
from sandbox.files.beneath import require_plain
from sandbox.files.content import CHUNK, decoded, encoded, replaced
from sandbox.files.problems import Refused
from sandbox.files.reading import opened, version_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sandbox.files.beneath import Folder
    from sandbox.files.paths import Place

LONGEST_UPDATE = 32 << 20
"""Bytes of the largest file in which text is replaced, since it is held in memory for that."""


class Room(Protocol):
    """What may still be written."""

    @property
    def largest_file(self) -> int:
        """Size of the largest file that may be written, in bytes."""

    def require(self, folder: Folder, size: int, inodes: int) -> None:
        """Take that many bytes and inodes more on the folder's disk. Raises Refused(FULL)."""


@dataclass(frozen=True, slots=True)
class Written:
    size: int
    version: str
    replaced: int = 0


def write(
    top: Folder, place: Place, content: str | bytes, *, append: bool, expected: str | None, room: Room
) -> Written:
    """Write or append to a file and make the folders above it."""
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
    top: Folder, place: Place, old: str, new: str, *, everywhere: bool, expected: str | None, room: Room
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


def _above(top: Folder, place: Place, room: Room) -> Folder:
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
        raise Refused(ProblemCode.STALE, "there is no such file" if found is None else "")
    return found


def _require_same(found: os.stat_result, opened_now: os.stat_result) -> None:
    if (found.st_dev, found.st_ino) != (opened_now.st_dev, opened_now.st_ino):
        raise Refused(ProblemCode.STALE, "it was replaced meanwhile")


def _put(
    folder: Folder,
    name: str,
    pieces: Iterable[bytes],
    size: int,
    found: os.stat_result | None,
    expected: str | None,
    room: Room,
) -> Written:
    if size > room.largest_file:
        raise Refused(ProblemCode.TOO_LARGE, f"{size} bytes; a file has at most {room.largest_file}")
    room.require(folder, size - (found.st_size if found else 0), 0 if found else 1)

    def fill(fd: int) -> None:
        for piece in pieces:
            _write_all(fd, piece)
        if expected is not None:
            _checked(folder, name, expected)  # once more, when all that takes long is done

    mode = stat.S_IMODE(found.st_mode) & 0o777 if found else None
    try:
        written = folder.put(name, fill, mode=mode, fresh=expected == NEW)
    except FileExistsError:
        raise Refused(ProblemCode.STALE, "there is such a file already") from None
    return Written(size, version_of(written))


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view[:CHUNK]) :]
