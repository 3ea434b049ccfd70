"""Office files and books are zip archives of parts: opened, or refused with the reason. For from_*.py."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

from report import CannotConvert

if TYPE_CHECKING:
    from pathlib import Path


def package(path: Path) -> zipfile.ZipFile:
    """Raises CannotConvert."""
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile:
        start = path.read_bytes()[:8]
        if start.startswith(b"\xd0\xcf\x11\xe0"):
            raise CannotConvert(
                f"{path.name} is an old Office file or has a password: save it anew in Office without one"
            ) from None
        raise CannotConvert(f"{path.name} is damaged, or not what its ending says") from None
