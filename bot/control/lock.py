"""One active process per data folder: a file lock that the kernel releases however the process ends."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

FILE = "antler.lock"


class DataDirInUse(Exception):
    """pid: of the process that holds the folder, None when it is not known."""

    def __init__(self, data_dir: Path, pid: int | None) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(f"{data_dir} is in use by {who}: stop it, or give this one another data_dir")
        self.pid = pid


class DataDirLock:
    """Held from entering to leaving the block. Raises DataDirInUse, OSError when the folder cannot be used."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._fd: int | None = None

    def __enter__(self) -> None:
        self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self._data_dir / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, 32).decode("ascii", "replace").strip()
            os.close(fd)
            raise DataDirInUse(self._data_dir, int(holder) if holder.isdecimal() else None) from None
        os.ftruncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode())
        self._fd = fd

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
