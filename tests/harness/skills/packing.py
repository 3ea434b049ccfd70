"""Makes `.skill` archives for the tests: good ones, and entries that no packer would write."""

from __future__ import annotations

import stat
import zipfile
from typing import TYPE_CHECKING

from tests.harness.skills.writing import front

if TYPE_CHECKING:
    from pathlib import Path

GOOD = f"{front('tried')}\nDo it.\n"


def entry(name: str, *, mode: int = stat.S_IFREG | 0o644, extra: bytes = b"") -> zipfile.ZipInfo:
    """An entry with this name, as it is."""
    info = zipfile.ZipInfo("placeholder", (2024, 1, 1, 0, 0, 0))
    info.filename = info.orig_filename = name
    info.external_attr = mode << 16
    info.extra = extra
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = 3
    return info


def pack(file: Path, *entries: tuple[str | zipfile.ZipInfo, str | bytes], skill: str = GOOD) -> Path:
    """An archive with a good SKILL.md in front, "" for none, and these entries."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        if skill:
            archive.writestr("tried/SKILL.md", skill)
        for info, data in entries:
            archive.writestr(info, data)
    return file
