"""Text files: detection of text, reading, ranges of lines and replacements.

Text is UTF-8 without null characters. Other encodings are named and refused, since editing a decoded copy would not
preserve the surrounding bytes; commands can convert them.
"""

from __future__ import annotations

import codecs
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.base import ProblemCode
from sandbox.files.beneath import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sandbox.files.beneath import Folder


HEAD = 8192
"""Number of bytes used to detect a file's type."""
CHUNK = 1 << 18
PLACES_NAMED = 10
_WIDE = ((codecs.BOM_UTF32_LE, "UTF-32"), (codecs.BOM_UTF16_LE, "UTF-16"), (codecs.BOM_UTF16_BE, "UTF-16"))
LONGEST_READ = 128 << 20
"""Maximum size in bytes of a file that is read for a range of its lines; commands can handle more."""


def version_of(found: os.stat_result) -> str:
    """A version that changes with every write, chmod and replacement: only the kernel sets the inode's change time."""
    return f"{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}-{found.st_ctime_ns:x}"


class OpenFile:
    """A file that is being read: at most as many bytes as it had when it was opened, even if it grows."""

    def __init__(self, fd: int, found: os.stat_result) -> None:
        self.found = found
        self.size = found.st_size
        self.version = version_of(found)
        self._fd = fd
        self._left = found.st_size

    def head(self) -> bytes:
        return os.pread(self._fd, min(HEAD, self.size), 0)

    def read(self, size: int) -> bytes:
        """Read at most `size` further bytes; b"" at the end."""
        data = os.read(self._fd, min(size, self._left))
        self._left -= len(data)
        return data

    def pieces(self) -> Iterator[bytes]:
        while piece := self.read(CHUNK):
            yield piece

    def close(self) -> None:
        os.close(self._fd)


@contextmanager
def opened(folder: Folder, path: str, most: int) -> Iterator[OpenFile]:
    """Open a file for the block. Raises Refused, TOO_LARGE for more than `most` bytes."""
    file = OpenFile(*folder.file(path))
    try:
        if file.size > most:
            raise Refused(ProblemCode.TOO_LARGE, f"{file.size} bytes; at most {most} can be read")
        yield file
    finally:
        file.close()


def read_range(
    folder: Folder, path: str, first_line: int, last_line: int | None, max_bytes: int
) -> tuple[Lines, int, str]:
    """Read a range of a text file's lines; returns it with the file's size and its version."""
    with opened(folder, path, LONGEST_READ) as file:
        require_text(file.head(), file.size)
        return read_lines(file.read, first_line, last_line, max_bytes), file.size, file.version


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a file; for the fields see FileText."""

    text: str
    first: int
    last: int
    total: int
    cut: bool


def load_types() -> None:
    """Import the library that detects file types: 0.6 MB, not needed if no files are read.

    Call it with the gateway's own rights: a thread acting as another user may not be able to read the library.
    """
    import filetype  # type: ignore[import-untyped]  # noqa: F401


def require_text(head: bytes, size: int) -> None:
    """Raise Refused(BINARY), naming the type, unless a file with this beginning may be text."""
    for mark, name in _WIDE:
        if head.startswith(mark):
            raise Refused(ProblemCode.BINARY, f"text in {name}, not in UTF-8; a command such as iconv can convert it")
    if b"\0" not in head and _is_utf8(head, final=len(head) >= size):
        return
    import filetype

    kind = filetype.guess(head)
    if kind is not None:
        raise Refused(ProblemCode.BINARY, f"{kind.mime}, {size} bytes")
    if b"\0" in head:
        raise Refused(ProblemCode.BINARY, f"binary data of an unknown type, {size} bytes")
    raise _other_encoding()


def _other_encoding() -> Refused:
    detail = "not in UTF-8: binary data, or text in an older encoding, which a command such as iconv can convert"
    return Refused(ProblemCode.BINARY, detail)


def _is_utf8(data: bytes, *, final: bool) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data, final)
    except UnicodeDecodeError:
        return False
    return True


def decoded(data: bytes) -> str:
    """Decode a whole text file. Raises Refused(BINARY)."""
    require_text(data[:HEAD], len(data))
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise _other_encoding() from None
    if "\0" in text:
        raise Refused(ProblemCode.BINARY, "it has null characters")
    return text


def encoded(content: str | bytes) -> bytes:
    """The bytes to write. Raises Refused(BINARY) for text that UTF-8 cannot represent."""
    try:
        return content.encode() if isinstance(content, str) else content
    except UnicodeEncodeError:
        raise Refused(ProblemCode.BINARY, "the text contains a lone surrogate") from None


def read_lines(read: Callable[[int], bytes], first: int, last: int | None, max_bytes: int) -> Lines:
    """A range of lines of a file that is read once. read(n): returns at most n further bytes, b"" at the end.

    Only a newline ends a line. A range that is too long ends with a whole line if one fits.
    """
    first = max(1, first)
    wanted = bytearray()
    line, ending = 1, b"\n"
    while chunk := read(CHUNK):
        newlines = chunk.count(b"\n")
        if len(wanted) <= max_bytes and line + newlines >= first and (last is None or line <= last):
            begin = _after(chunk, first - line)
            end = len(chunk) if last is None or line + newlines <= last else _after(chunk, last + 1 - line)
            wanted += chunk[begin : min(end, begin + max_bytes + 1 - len(wanted))]
        line += newlines
        ending = chunk[-1:]
    total = line - 1 if ending == b"\n" else line
    cut = len(wanted) > max_bytes
    text = _text(bytes(wanted[:max_bytes]), cut=cut)
    if not text:
        return Lines("", 0, 0, total, cut)
    return Lines(text, first, first + text.count("\n") - text.endswith("\n"), total, cut)


def _after(chunk: bytes, newlines: int) -> int:
    """The position after that many newlines."""
    return 0 if newlines <= 0 else len(chunk) - len(chunk.split(b"\n", newlines)[-1])


def _text(data: bytes, *, cut: bool) -> str:
    if cut:
        data = data[: data.rfind(b"\n") + 1] or data
    if b"\0" in data:
        raise Refused(ProblemCode.BINARY, "it has null characters")
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, not cut)
    except UnicodeDecodeError:
        raise _other_encoding() from None


def replaced(text: str, old: str, new: str, *, everywhere: bool) -> tuple[str, int]:
    """The text with `old` replaced, and the number of replacements. Raises Refused: NO_MATCH, NOT_UNIQUE."""
    if not old:
        raise Refused(ProblemCode.NO_MATCH, "the text to replace is empty")
    if everywhere:
        count = text.count(old)
    else:
        places = _places(text, old)
        count = len(places)
        if count > 1:
            raise Refused(ProblemCode.NOT_UNIQUE, _named(text, places, max(count, text.count(old))))
    if not count:
        hint = (
            "its lines end with CR LF, those of the text to replace with LF" if _only_endings_differ(text, old) else ""
        )
        raise Refused(ProblemCode.NO_MATCH, hint)
    return text.replace(old, new), count


def _places(text: str, old: str) -> list[int]:
    """Its occurrences, including overlapping ones: "aa" in "aaa" is not unique. At most PLACES_NAMED of them."""
    places: list[int] = []
    at = text.find(old)
    while at >= 0 and len(places) < PLACES_NAMED:
        places.append(at)
        at = text.find(old, at + 1)
    return places


def _named(text: str, places: list[int], count: int) -> str:
    lines = [str(text.count("\n", 0, at) + 1) for at in places]
    return f"{count} places: lines {', '.join(lines)}{', ...' if count > len(places) else ''}"


def _only_endings_differ(text: str, old: str) -> bool:
    return "\r\n" in text and "\r" not in old and old.replace("\n", "\r\n") in text
