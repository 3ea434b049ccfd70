"""A zip file as it really is: entries checked by name and kind, and inflated without believing what it says of itself.

For archive.py. Python's zipfile reads only the table of contents here.
"""

from __future__ import annotations

import re
import stat
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_RATIO = 100
SMALL = 64 * 1024
"""Bytes of an entry whose ratio says nothing: a short list of zeros."""
LONGEST_NAME = 200
"""Bytes of one name in a path, which every file system takes."""
DEEPEST = 8

_LOCAL = struct.Struct("<4s5H3L2H")
_SIGNATURE = b"PK\x03\x04"
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_UTF8 = 0x800
_REPARSE = 0x400
_SET_ID = stat.S_ISUID | stat.S_ISGID
_ORDINARY = frozenset({0, stat.S_IFREG, stat.S_IFDIR})
_LINKING_EXTRA = frozenset({0x756E, 0x7075})
"""Fields that bring a link or a second name."""
_PKWARE_UNIX = 0x000D
_BAD_SIGN = re.compile(
    '[\x00-\x1f\x7f\\\\:*?"<>|\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e0fff]'
)
_CHUNK = 64 * 1024


class Damaged(Exception):
    """An entry that is not what the table of contents says. The text says why."""


def entry_faults(info: zipfile.ZipInfo) -> Iterator[str]:
    """What is wrong with an entry, apart from its content."""
    yield from _name_faults(info)
    mode = info.external_attr >> 16
    if stat.S_IFMT(mode) not in _ORDINARY or info.external_attr & _REPARSE:
        yield "is a link or a special file"
    elif stat.S_ISDIR(mode) != info.is_dir() and stat.S_IFMT(mode):
        yield "is a folder by one word and a file by another"
    if mode & _SET_ID:
        yield "would run with its owner's rights"
    if info.flag_bits & _ENCRYPTED:
        yield "is encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        yield "is packed in an unusual way"
    if info.file_size > SMALL and info.file_size > MOST_RATIO * max(info.compress_size, 1):
        yield f"is packed more than {MOST_RATIO} to 1"
    yield from _extra_faults(info.extra)


def _name_faults(info: zipfile.ZipInfo) -> Iterator[str]:
    name = info.orig_filename
    if not name.isascii() and not info.flag_bits & _UTF8:
        yield "has a name of unknown encoding"
    if name.startswith("/"):
        yield "is an absolute path"
    if _BAD_SIGN.search(name):
        yield "has a sign in its name that is not allowed"
    parts = name.removesuffix("/").removeprefix("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        yield "leads out of its folder, or has an empty name in its path"
    elif any(part != part.strip() or part.endswith(".") for part in parts):
        yield "has a name that begins or ends with a blank, or ends with a dot"
    if len(parts) > DEEPEST or any(len(part.encode("utf-8", "replace")) > LONGEST_NAME for part in parts):
        yield "has too long a path"


def _extra_faults(extra: bytes) -> Iterator[str]:
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        if kind in _LINKING_EXTRA or (kind == _PKWARE_UNIX and size > 12):
            yield "is a link, or has a second name"
        extra = extra[4 + size :]


def overlapping(entries: Sequence[zipfile.ZipInfo], end: int) -> Iterator[zipfile.ZipInfo]:
    """Entries that share bytes with what follows them. end: where the table of contents begins."""
    ordered = sorted(entries, key=lambda info: info.header_offset)
    for info, following in zip(ordered, [each.header_offset for each in ordered[1:]] + [end], strict=True):
        if info.header_offset + _LOCAL.size + info.compress_size > following:
            yield info


def content(file: BinaryIO, info: zipfile.ZipInfo, most: int) -> bytes:
    """What an entry holds, of at most so many bytes. Raises Damaged."""
    _find(file, info)
    packed = file.read(info.compress_size)
    if len(packed) != info.compress_size:
        raise Damaged("is cut off")
    data = packed if info.compress_type == zipfile.ZIP_STORED else _inflated(packed, min(most, info.file_size))
    if len(data) > most:
        raise Damaged("is too large")
    if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
        raise Damaged("is not as long as it says, or its checksum is wrong")
    return data


def _find(file: BinaryIO, info: zipfile.ZipInfo) -> None:
    """Leave the file where the entry's bytes begin; its own header has to say the same as the table of contents."""
    file.seek(info.header_offset)
    header = file.read(_LOCAL.size)
    if len(header) != _LOCAL.size:
        raise Damaged("is cut off")
    signature, _, flags, method, *_, name_size, extra_size = _LOCAL.unpack(header)
    name = file.read(name_size)
    same = name == info.orig_filename.encode("utf-8" if info.flag_bits & _UTF8 else "cp437", "replace")
    if signature != _SIGNATURE or not same or method != info.compress_type or flags & _ENCRYPTED:
        raise Damaged("has two headers that say different things")
    file.seek(extra_size, 1)


def _inflated(packed: bytes, most: int) -> bytes:
    """Never more than one chunk beyond what is allowed, whatever the bytes would grow to."""
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
        raise Damaged("is longer than it says, or too large")
    if not inflater.eof or inflater.unused_data:
        raise Damaged("is not as long as it says")
    return b"".join(parts)
