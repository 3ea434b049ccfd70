"""How much may still be written: the thread's share, and what must stay free on the disk for everything else."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from sandbox.base import ProblemCode
from sandbox.files.problems import Refused
from sandbox.files.trees import Usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox.files.beneath import Folder

_REST = 20
"""A count is good for this many times as long as it took, so that counting costs a twentieth at most."""
_NEAR = 0.9
"""From this part of the share on it is counted at each write, since commands may have made room."""


class Disk:
    """Room outside a thread's own folders: only the disk's floor counts. Sizes in bytes."""

    def __init__(self, largest_file: int, keep_free: int) -> None:
        self.largest_file = largest_file
        self._keep_free = keep_free

    def refresh(self) -> None:
        """Look again, where looking is needed; in a worker thread, with the gateway's own rights."""

    def require(self, folder: Folder, size: int, inodes: int) -> None:
        """Take that many bytes and inodes more. Raises Refused(FULL)."""
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
