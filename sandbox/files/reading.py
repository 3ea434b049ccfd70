"""Reads one file of a sandbox's folder; called in worker threads by local.py."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sandbox.base import ProblemCode
from sandbox.files.content import CHUNK, HEAD, Lines, read_lines, require_text
from sandbox.files.problems import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.files.beneath import Folder

LONGEST_READ = 128 << 20
"""Bytes of the largest file that is read through for a range of its lines; commands can do more."""


def version_of(found: os.stat_result) -> str:
    """Changes with every write, chmod and replacement: nobody but the kernel sets the time of the inode's change."""
    return f"{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}-{found.st_ctime_ns:x}"


class OpenFile:
    """A file that is being read: at most as many bytes as it had when it was opened, whatever it grows to."""

    def __init__(self, fd: int, found: os.stat_result) -> None:
        self.found = found
        self.size = found.st_size
        self.version = version_of(found)
        self._fd = fd
        self._left = found.st_size

    def head(self) -> bytes:
        return os.pread(self._fd, min(HEAD, self.size), 0)

    def read(self, size: int) -> bytes:
        """The next at most `size` bytes; b"" at the end."""
        data = os.read(self._fd, min(size, self._left))
        self._left -= len(data)
        return data

    def pieces(self) -> Iterator[bytes]:
        """The rest of it."""
        while piece := self.read(CHUNK):
            yield piece

    def close(self) -> None:
        os.close(self._fd)


@contextmanager
def opened(folder: Folder, path: str, most: int) -> Iterator[OpenFile]:
    """Raises Refused, also TOO_LARGE for more than `most` bytes."""
    file = OpenFile(*folder.file(path))
    try:
        if file.size > most:
            raise Refused(ProblemCode.TOO_LARGE, f"{file.size} bytes; at most {most} are read")
        yield file
    finally:
        file.close()


def read_range(
    folder: Folder, path: str, first_line: int, last_line: int | None, max_bytes: int
) -> tuple[Lines, int, str]:
    """A range of a text file's lines, the file's size and its version."""
    with opened(folder, path, LONGEST_READ) as file:
        require_text(file.head(), file.size)
        return read_lines(file.read, first_line, last_line, max_bytes), file.size, file.version
