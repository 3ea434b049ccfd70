"""The audit log of the agent's commands: a file of JSON lines in the data folder, which only ever grows."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from dataclasses import asdict
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.ports import AuditEntry

NAME = "audit.jsonl"
MOST_BYTES = 10_000_000
"""A file that would pass this is set aside as NAME.1, the one before as NAME.2 and so on."""
SET_ASIDE = 9


class AuditFile:
    """AuditLog port. path: of the file, 0600. redact: takes known secrets out of every line."""

    def __init__(
        self, path: Path, redact: Callable[[str], str], *, most_bytes: int = MOST_BYTES, set_aside: int = SET_ASIDE
    ) -> None:
        self._path = path
        self._redact = redact
        self._most_bytes = most_bytes
        self._set_aside = set_aside
        self._lock = threading.Lock()

    async def append(self, entry: AuditEntry) -> None:
        """See the port. The line is with the kernel when this returns."""
        fields = {name: value for name, value in asdict(entry).items() if value not in ("", None)}
        fields["at"] = entry.at.isoformat(timespec="milliseconds")
        line = self._redact(json.dumps(fields, ensure_ascii=False)) + "\n"
        await asyncio.to_thread(self._write, line.encode("utf-8", "backslashreplace"))

    def _write(self, line: bytes) -> None:
        with self._lock:
            descriptor = self._opened()
            size = os.fstat(descriptor).st_size
            if size and size + len(line) > self._most_bytes:
                os.close(descriptor)
                self._rotate()
                descriptor, size = self._opened(), 0
            try:
                _write_all(descriptor, line)
            except OSError:
                os.ftruncate(descriptor, size)  # half a line would spoil the next one
                raise
            finally:
                os.close(descriptor)

    def _opened(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(self._path, flags, 0o600)

    def _rotate(self) -> None:
        names = [self._path, *(self._path.with_name(f"{self._path.name}.{n}") for n in range(1, self._set_aside + 1))]
        for old, new in reversed(list(pairwise(names))):
            if old.exists():
                old.replace(new)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
