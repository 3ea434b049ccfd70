"""Files written completely or not at all, even if the process or the machine dies. Blocking."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NEW = ".new-"
"""Prefix of the names of incomplete files; a crash may leave some behind."""


def write_atomically(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace a file atomically; it is on disk when this returns."""
    fresh = path.with_name(f"{NEW}{path.name}-{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flush a folder to disk, which makes renames in it durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
