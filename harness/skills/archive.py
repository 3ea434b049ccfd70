"""A `.skill` archive (zip): checked as a whole and unpacked, or refused with every reason; for installing.py."""

from __future__ import annotations

import os
import stat
import struct
import unicodedata
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from harness.skills.document import SKILL_FILE, parse_bytes, valid_name
from harness.skills.errors import Problem, SkillError
from harness.skills.packed import Damaged, content, entry_faults, overlapping
from harness.skills.scanning.tree import LARGEST_FILE, MEGABYTE, MOST_BYTES, MOST_FILES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from harness.skills.document import SkillDocument

LARGEST_ARCHIVE = 10 * MEGABYTE
MOST_ENTRIES = MOST_FILES + 100
"""Files and folders."""
MOST_PROBLEMS = 50
LONGEST_SHOWN = 120
ENDINGS = (".skill", ".zip", ".tar", ".tgz", ".gz", ".jar", ".whl", ".7z", ".rar", ".egg")
"""Of packages, which a skill holds none of; what is one by its bytes the scan finds."""


class ArchiveRefused(SkillError):
    """An archive that is not unpacked. problems: every reason that was found."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What an archive holds. files: path within the skill's folder -> content."""

    document: SkillDocument
    files: Mapping[str, bytes]


def unpack(archive: Path) -> Unpacked:
    """All of it, in memory, or nothing. Raises ArchiveRefused."""
    try:
        with _opened(archive) as file:
            return _unpacked(file)
    except OSError as error:
        raise _refused("", f"cannot be read: {os.strerror(error.errno or 0)}") from error


def _opened(archive: Path) -> BinaryIO:
    fd = os.open(archive, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST_ARCHIVE:
        return os.fdopen(fd, "rb")
    os.close(fd)
    if stat.S_ISREG(found.st_mode):
        raise _refused("", f"is larger than {LARGEST_ARCHIVE // MEGABYTE} MB")
    raise _refused("", "is not a file")


def _unpacked(file: BinaryIO) -> Unpacked:
    if file.read(4) != b"PK\x03\x04":
        raise _refused("", "is not a zip archive, or is empty")
    try:
        with zipfile.ZipFile(file) as table:
            entries, end = table.infolist(), table.start_dir
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError, struct.error) as error:
        raise _refused("", f"is not a zip archive that can be read: {error}") from error
    if len(entries) > MOST_ENTRIES:
        raise _refused("", f"holds {len(entries)} entries; at most {MOST_ENTRIES} are allowed")
    top = _top(entries)
    problems = [*_faults(entries, end), *_crowded(entries), *_layout(entries, top)]
    if problems:
        raise ArchiveRefused(problems[:MOST_PROBLEMS])
    files = _contents(file, entries, top)
    document = parse_bytes(files[SKILL_FILE], top, strict=True)
    return Unpacked(document, files)


def _faults(entries: list[zipfile.ZipInfo], end: int) -> Iterator[Problem]:
    for info in entries:
        yield from (_problem(info, fault) for fault in dict.fromkeys(entry_faults(info)))
        if info.filename.lower().endswith(ENDINGS):
            yield _problem(info, "is a package within the package")
        if info.file_size > LARGEST_FILE:
            yield _problem(info, f"is larger than {LARGEST_FILE // MEGABYTE} MB")
    yield from (_problem(info, "shares its bytes with another entry") for info in overlapping(entries, end))
    if sum(info.file_size for info in entries) > MOST_BYTES:
        yield Problem("", "", f"holds more than {MOST_BYTES // MEGABYTE} MB")


def _crowded(entries: list[zipfile.ZipInfo]) -> Iterator[Problem]:
    """Names that are, or on some machines would be, those of something else in the archive."""
    seen: dict[str, bool] = {}
    files = sum(not info.is_dir() for info in entries)
    if files > MOST_FILES:
        yield Problem("", "", f"holds {files} files; at most {MOST_FILES} are allowed")
    for info in entries:
        name = _folded(info.filename.removesuffix("/"))
        if name in seen:
            yield _problem(info, "is there twice, or differs from another name in its case only")
        seen[name] = info.is_dir()
    for info in entries:
        parents = _folded(info.filename.removesuffix("/")).split("/")[:-1]
        if any(seen.get("/".join(parents[: count + 1])) is False for count in range(len(parents))):
            yield _problem(info, "is within what is a file")


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _layout(entries: list[zipfile.ZipInfo], top: str) -> Iterator[Problem]:
    tops = sorted({info.filename.split("/")[0] for info in entries})
    if len(tops) != 1:
        named = ", ".join(map(_shown, tops[:5]))
        yield Problem("", "", f"should hold one folder, the skill's, and holds {len(tops)} things: {named}")
    elif not valid_name(top):
        yield Problem("", "", f"holds a folder {_shown(top)}, which is no name for a skill")
    if not any(info.filename == f"{top}/{SKILL_FILE}" for info in entries):
        yield Problem("", "", f"has no {SKILL_FILE} in its folder")
    for info in entries:
        parts = info.filename.casefold().split("/")
        if parts[-1] == SKILL_FILE.casefold() and info.filename != f"{top}/{SKILL_FILE}":
            yield _problem(info, "is a skill within the skill")


def _top(entries: list[zipfile.ZipInfo]) -> str:
    return min((info.filename.split("/")[0] for info in entries), default="")


def _contents(file: BinaryIO, entries: list[zipfile.ZipInfo], top: str) -> dict[str, bytes]:
    """Counted as it comes: sizes in the table of contents may be lies."""
    files: dict[str, bytes] = {}
    problems: list[Problem] = []
    left = MOST_BYTES
    for info in entries:
        try:
            data = content(file, info, min(left, LARGEST_FILE))
        except Damaged as error:
            problems.append(_problem(info, str(error)))
            continue
        left -= len(data)
        if not info.is_dir():
            files[info.filename.removeprefix(f"{top}/")] = data
        elif data:
            problems.append(_problem(info, "is a folder with content"))
    if problems:
        raise ArchiveRefused(problems[:MOST_PROBLEMS])
    return files


def _refused(name: str, message: str) -> ArchiveRefused:
    return ArchiveRefused([Problem(name, "", message)])


def _problem(info: zipfile.ZipInfo, message: str) -> Problem:
    return Problem(_shown(info.orig_filename), "", message)


def _shown(name: str) -> str:
    """A name as it can be printed anywhere."""
    return ascii(name)[1:-1][:LONGEST_SHOWN]
