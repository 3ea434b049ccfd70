"""Archives of skills (`.skill`, a zip): checked as a whole, unpacked and installed, or refused with every reason.

Python's zipfile reads only the table of contents here; what it says about an entry is not trusted. Blocking.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import unicodedata
import zipfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from harness.skills.document import SKILL_FILE, Problem, SkillError, parse_bytes, valid_name
from harness.skills.editing import lookalikes, standing, write
from harness.skills.files import LARGEST_FILE, MEGABYTE, MOST_BYTES, MOST_FILES
from harness.skills.history import Version
from harness.skills.scan import scan_files
from harness.skills.verdict import Level

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from harness.skills.document import SkillDocument
    from harness.skills.editing import SkillHome
    from harness.skills.files import Files
    from harness.skills.verdict import Verdict

    Judging = Callable[[str, Files, Verdict], Verdict]

MOST_RATIO = 100
SMALL = 64 * 1024
"""Bytes of an entry that is too small for its ratio to matter."""
LONGEST_NAME = 200
"""Bytes of one name in a path, accepted by every file system."""
DEEPEST = 8

_LOCAL = struct.Struct("<4s5H3L2H")
_SIGNATURE = b"PK\x03\x04"
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_UTF8 = 0x800
_REPARSE = 0x400
_SET_ID = stat.S_ISUID | stat.S_ISGID
_ORDINARY = frozenset({0, stat.S_IFREG, stat.S_IFDIR})
_LINKING_EXTRA = frozenset({0x756E, 0x7075})
"""Extra fields that carry a link or a second name."""
_PKWARE_UNIX = 0x000D
_BAD_SIGN = re.compile(
    '[\x00-\x1f\x7f\\\\:*?"<>|\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e0fff]'
)
_CHUNK = 64 * 1024
LARGEST_ARCHIVE = 10 * MEGABYTE
MOST_ENTRIES = MOST_FILES + 100
"""Files and folders together."""
MOST_PROBLEMS = 50
LONGEST_SHOWN = 120
ENDINGS = (".skill", ".zip", ".tar", ".tgz", ".gz", ".jar", ".whl", ".7z", ".rar", ".egg")
"""Packages, which a skill must not contain; the scan finds those that hide behind another name."""


class Damaged(Exception):
    """An entry that differs from the table of contents. The text says how."""


def _entry_faults(info: zipfile.ZipInfo) -> Iterator[str]:
    """Faults of an entry, apart from its content."""
    yield from _name_faults(info)
    mode = info.external_attr >> 16
    if stat.S_IFMT(mode) not in _ORDINARY or info.external_attr & _REPARSE:
        yield "is a link or a special file"
    elif stat.S_ISDIR(mode) != info.is_dir() and stat.S_IFMT(mode):
        yield "is marked both as a folder and as a file"
    if mode & _SET_ID:
        yield "would run with its owner's permissions"
    if info.flag_bits & _ENCRYPTED:
        yield "is encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        yield "uses an unsupported compression"
    if info.file_size > SMALL and info.file_size > MOST_RATIO * max(info.compress_size, 1):
        yield f"is compressed by more than {MOST_RATIO} to 1"
    yield from _extra_faults(info.extra)


def _name_faults(info: zipfile.ZipInfo) -> Iterator[str]:
    name = info.orig_filename
    if not name.isascii() and not info.flag_bits & _UTF8:
        yield "has a name in an unknown encoding"
    if name.startswith("/"):
        yield "is an absolute path"
    if _BAD_SIGN.search(name):
        yield "has a character in its name that is not allowed"
    parts = name.removesuffix("/").removeprefix("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        yield "leads out of its folder, or has an empty name in its path"
    elif any(part != part.strip() or part.endswith(".") for part in parts):
        yield "has a name that begins or ends with a space, or ends with a dot"
    if len(parts) > DEEPEST or any(len(part.encode("utf-8", "replace")) > LONGEST_NAME for part in parts):
        yield "has a path that is too long"


def _extra_faults(extra: bytes) -> Iterator[str]:
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        if kind in _LINKING_EXTRA or (kind == _PKWARE_UNIX and size > 12):
            yield "is a link, or has a second name"
        extra = extra[4 + size :]


def _overlapping(entries: Sequence[zipfile.ZipInfo], end: int) -> Iterator[zipfile.ZipInfo]:
    """Entries that share bytes with the following one. end: offset of the table of contents."""
    ordered = sorted(entries, key=lambda info: info.header_offset)
    offsets = [*(each.header_offset for each in ordered), end]
    for info, following in zip(ordered, offsets[1:], strict=True):
        if info.header_offset + _LOCAL.size + info.compress_size > following:
            yield info


def _content(file: BinaryIO, info: zipfile.ZipInfo, most: int) -> bytes:
    """Content of an entry, of at most so many bytes. Raises Damaged."""
    _find(file, info)
    packed = file.read(info.compress_size)
    if len(packed) != info.compress_size:
        raise Damaged("is cut off")
    data = packed if info.compress_type == zipfile.ZIP_STORED else _inflated(packed, min(most, info.file_size))
    if len(data) > most:
        raise Damaged("is too large")
    if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
        raise Damaged("does not match its stated length or checksum")
    return data


def _find(file: BinaryIO, info: zipfile.ZipInfo) -> None:
    """Seek to the entry's bytes. Its own header must agree with the table of contents."""
    file.seek(info.header_offset)
    header = file.read(_LOCAL.size)
    if len(header) != _LOCAL.size:
        raise Damaged("is cut off")
    signature, _, flags, method, *_, name_size, extra_size = _LOCAL.unpack(header)
    name = file.read(name_size)
    same = name == info.orig_filename.encode("utf-8" if info.flag_bits & _UTF8 else "cp437", "replace")
    if signature != _SIGNATURE or not same or method != info.compress_type or flags & _ENCRYPTED:
        raise Damaged("has two headers that contradict each other")
    file.seek(extra_size, 1)


def _inflated(packed: bytes, most: int) -> bytes:
    """Inflate, never more than one chunk beyond the limit."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    parts, size, rest = [], 0, packed
    try:
        while rest and not inflater.eof and size <= most:
            part = inflater.decompress(rest, _CHUNK)
            rest = inflater.unconsumed_tail
            parts.append(part)
            size += len(part)
    except zlib.error as error:
        raise Damaged("cannot be unpacked") from error
    if size > most:
        raise Damaged("is longer than stated, or too large")
    if not inflater.eof or inflater.unused_data:
        raise Damaged("does not match its stated length")
    return b"".join(parts)


class ArchiveRefused(SkillError):
    """An archive is refused. problems: every reason."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """Content of an archive. files: by path within the skill's folder."""

    document: SkillDocument
    files: Mapping[str, bytes]


def unpack(archive: Path) -> Unpacked:
    """Unpack a whole archive in memory. Raises ArchiveRefused."""
    try:
        with _opened(archive) as file:
            return _unpacked(file)
    except OSError as error:
        raise _refused(f"cannot be read: {os.strerror(error.errno or 0)}") from error


def _opened(archive: Path) -> BinaryIO:
    fd = os.open(archive, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST_ARCHIVE:
        return os.fdopen(fd, "rb")
    os.close(fd)
    if stat.S_ISREG(found.st_mode):
        raise _refused(f"is larger than {LARGEST_ARCHIVE // MEGABYTE} MB")
    raise _refused("is not a file")


def _unpacked(file: BinaryIO) -> Unpacked:
    if file.read(4) != b"PK\x03\x04":
        raise _refused("is not a zip archive, or is empty")
    try:
        with zipfile.ZipFile(file) as table:
            entries, end = table.infolist(), table.start_dir
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError, struct.error) as error:
        raise _refused(f"is not a readable zip archive: {error}") from error
    if len(entries) > MOST_ENTRIES:
        raise _refused(f"holds {len(entries)} entries; at most {MOST_ENTRIES} are allowed")
    top = _top(entries)
    problems = [*_faults(entries, end), *_crowded(entries), *_layout(entries, top)]
    if problems:
        raise ArchiveRefused(problems[:MOST_PROBLEMS])
    files = _contents(file, entries, top)
    document = parse_bytes(files[SKILL_FILE], top, strict=True)
    return Unpacked(document, files)


def _faults(entries: list[zipfile.ZipInfo], end: int) -> Iterator[Problem]:
    for info in entries:
        yield from (_problem(info, fault) for fault in dict.fromkeys(_entry_faults(info)))
        if info.filename.lower().endswith(ENDINGS):
            yield _problem(info, "is a package within the package")
        if info.file_size > LARGEST_FILE:
            yield _problem(info, f"is larger than {LARGEST_FILE // MEGABYTE} MB")
    yield from (_problem(info, "shares its bytes with another entry") for info in _overlapping(entries, end))
    if sum(info.file_size for info in entries) > MOST_BYTES:
        yield Problem("", "", f"holds more than {MOST_BYTES // MEGABYTE} MB")


def _crowded(entries: list[zipfile.ZipInfo]) -> Iterator[Problem]:
    """Faults of names that are, or on some file systems would be, the same as another one in the archive."""
    seen: dict[str, bool] = {}
    files = sum(not info.is_dir() for info in entries)
    if files > MOST_FILES:
        yield Problem("", "", f"holds {files} files; at most {MOST_FILES} are allowed")
    for info in entries:
        name = _folded(info.filename.removesuffix("/"))
        if name in seen:
            yield _problem(info, "occurs twice, or differs from another name only in case")
        seen[name] = info.is_dir()
    for info in entries:
        parents = _folded(info.filename.removesuffix("/")).split("/")[:-1]
        if any(seen.get("/".join(parents[: count + 1])) is False for count in range(len(parents))):
            yield _problem(info, "is below the path of a file")


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _layout(entries: list[zipfile.ZipInfo], top: str) -> Iterator[Problem]:
    tops = sorted({info.filename.split("/")[0] for info in entries})
    if len(tops) != 1:
        named = ", ".join(map(_shown, tops[:5]))
        yield Problem("", "", f"should hold one folder, the skill's, and holds {len(tops)} things: {named}")
    elif not valid_name(top):
        yield Problem("", "", f"holds a folder {_shown(top)}, which is not a valid skill name")
    if not any(info.filename == f"{top}/{SKILL_FILE}" for info in entries):
        yield Problem("", "", f"has no {SKILL_FILE} in its folder")
    for info in entries:
        parts = info.filename.casefold().split("/")
        if parts[-1] == SKILL_FILE.casefold() and info.filename != f"{top}/{SKILL_FILE}":
            yield _problem(info, "is a skill within the skill")


def _top(entries: list[zipfile.ZipInfo]) -> str:
    return min((info.filename.split("/")[0] for info in entries), default="")


def _contents(file: BinaryIO, entries: list[zipfile.ZipInfo], top: str) -> dict[str, bytes]:
    """Contents by path. Sizes are counted while reading: those in the table of contents may be false."""
    files: dict[str, bytes] = {}
    problems: list[Problem] = []
    left = MOST_BYTES
    for info in entries:
        try:
            data = _content(file, info, min(left, LARGEST_FILE))
        except Damaged as error:
            problems.append(_problem(info, str(error)))
            continue
        left -= len(data)
        if not info.is_dir():
            files[info.filename.removeprefix(f"{top}/")] = data
        elif data:
            problems.append(_problem(info, "is a folder entry with data"))
    if problems:
        raise ArchiveRefused(problems[:MOST_PROBLEMS])
    return files


def _refused(message: str) -> ArchiveRefused:
    return ArchiveRefused([Problem("", "", message)])


def _problem(info: zipfile.ZipInfo, message: str) -> Problem:
    return Problem(_shown(info.orig_filename), "", message)


def _shown(name: str) -> str:
    """A name that can be printed anywhere."""
    return ascii(name)[1:-1][:LONGEST_SHOWN]


@dataclass(frozen=True, slots=True)
class Installed:
    """A skill that was installed.

    digest: of its whole content, to which an approval applies.
    pending: it stays off until an administrator turns it on.
    replaced: one with this name existed, and is kept as a former version.
    """

    name: str
    digest: str
    verdict: Verdict
    pending: bool
    replaced: bool


def install(
    archive: Path,
    home: SkillHome,
    *,
    built_in: Collection[str],
    at: str,
    replace: bool = False,
    judging: Judging | None = None,
) -> Installed:
    """Check an archive and put its skill into a home. Raises ArchiveRefused, and the errors of `editing.write`.

    built_in: names that it must not have.
    at: ISO time.
    replace: a skill with this name may already exist.
    judging: consulted about skills that the rules do not refuse; can make the verdict more severe.
    """
    unpacked = unpack(archive)
    name, verdict = unpacked.document.name, scan_files(unpacked.files)
    before = standing(home, name)
    problems = [Problem("", "name", f"{name} is the name of a built-in skill")] if name in built_in else []
    problems += lookalikes(name, built_in)
    if before.digest and not replace:
        problems.append(Problem("", "name", f"{name} already exists; --replace replaces it with this one"))
    if judging is not None and not problems and verdict.level is not Level.BLOCK:
        verdict = judging(name, unpacked.files, verdict)
    if verdict.level is Level.BLOCK:
        problems += [Problem("", "", reason) for reason in verdict.reasons]
    if problems:
        raise ArchiveRefused(problems)
    change = Version(at=at, action="install", reason=archive.name[:200])
    written = write(home, name, unpacked.files, base=before.digest, change=change, verdict=verdict)
    return Installed(name, written.version.digest, verdict, written.pending, bool(before.digest))
