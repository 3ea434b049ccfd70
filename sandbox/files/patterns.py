"""Glob patterns and regular expressions from a hostile model: RE2, in linear time and bounded memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sandbox.base import ProblemCode
from sandbox.files.beneath import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_PATTERN = 1000
"""In characters."""
MEMORY = 1 << 20
"""Maximum size in bytes of one compiled pattern and its automata."""
LARGEST_PROGRAM = 3000
"""Maximum size in RE2 instructions: when the memory is used up, time is proportional to this times the text."""
MOST_CLASSES = 20
"""Maximum number of Unicode classes (\\pL): each blocks everything for a millisecond, before RE2 checks its limits."""
LINE_SHOWN = 300
_BEFORE = 60
"""Number of characters of a long line shown before the match."""


_CLASS = re.compile(r"\\[pP]")


def _compiled(pattern: str, *, ignore_case: bool = False, lines: bool = False) -> Any:
    import re2  # type: ignore[import-untyped]  # 1.5 MB, needed only for searches

    if len(pattern) > LONGEST_PATTERN:
        raise Refused(ProblemCode.BAD_PATTERN, f"it is longer than {LONGEST_PATTERN} characters")
    if len(_CLASS.findall(pattern)) > MOST_CLASSES:
        raise Refused(ProblemCode.BAD_PATTERN, f"it has more than {MOST_CLASSES} Unicode classes")
    options = re2.Options()
    options.max_mem = MEMORY
    options.log_errors = False
    options.never_capture = True
    options.case_sensitive = not ignore_case
    options.never_nl = lines
    options.dot_nl = not lines
    re2.purge()  # its cache would keep the memory of the last 128 patterns
    try:
        compiled = re2.compile(pattern.encode(), options)
    except re2.error as error:
        raise Refused(ProblemCode.BAD_PATTERN, _reason(error)) from None
    except UnicodeEncodeError:
        raise Refused(ProblemCode.BAD_PATTERN, "it contains a lone surrogate") from None
    if compiled.programsize > LARGEST_PROGRAM:
        raise Refused(ProblemCode.BAD_PATTERN, "it is too complex; smaller repetition counts help")
    return compiled


def _reason(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    return text.replace("(?m)", "", 1)


@dataclass(frozen=True, slots=True)
class Match:
    """A match. line: in the block, from 0. text: the line, shortened around the match."""

    line: int
    text: str


class LinePattern:
    """A regular expression that matches within lines; ^ and $ match a line's beginning and end."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        self._compiled = _compiled("(?m)" + pattern, ignore_case=ignore_case, lines=True)

    def matches(self, block: bytes) -> Iterator[Match]:
        """The matching lines of a block of whole lines, each once."""
        at = line = 0
        while at < len(block):
            match = self._compiled.search(block, at)
            if match is None or (match.start() == len(block) and block.endswith(b"\n")):
                return
            begin = block.rfind(b"\n", 0, match.start()) + 1
            end = block.find(b"\n", match.start())
            end = len(block) if end < 0 else end
            line += block.count(b"\n", at, begin)
            yield Match(line, _shortened(block[begin:end].rstrip(b"\r"), match.start() - begin))
            at, line = end + 1, line + 1


def _shortened(line: bytes, at: int) -> str:
    if len(line) <= LINE_SHOWN:
        return line.decode("utf-8", "replace")
    begin = max(0, at - _BEFORE) if at > LINE_SHOWN - _BEFORE else 0
    text = line[begin : begin + LINE_SHOWN].decode("utf-8", "ignore")
    return ("…" if begin else "") + text + ("…" if begin + LINE_SHOWN < len(line) else "")


class Glob:
    """A glob pattern over relative paths: *, ?, [abc], [!abc], {a,b}, and ** for any number of folders."""

    def __init__(self, pattern: str) -> None:
        if not pattern:
            raise Refused(ProblemCode.BAD_PATTERN, "it is empty")
        if ".." in pattern.split("/"):
            raise Refused(ProblemCode.BAD_PATTERN, '".." is not allowed in it')
        self._compiled = _compiled(_Translation(pattern).expression)

    @classmethod
    def of_names(cls, pattern: str) -> Glob:
        """Make a filter; without a slash it matches names in any folder."""
        return cls(pattern if "/" in pattern else "**/" + pattern)

    def matches(self, path: str) -> bool:
        return self._compiled.fullmatch(path.encode("utf-8", "replace")) is not None


def split_glob(pattern: str, path: str) -> tuple[str, str]:
    """The pattern, and the folder where it begins: for an absolute one the part before its first wildcard."""
    if not pattern.startswith("/"):
        return pattern, path
    parts = pattern.split("/")
    plain = next((index for index, part in enumerate(parts) if any(mark in part for mark in "*?[{\\")), len(parts))
    plain = min(plain, len(parts) - 1)
    return "/".join(parts[plain:]), "/".join(parts[:plain]) or "/"


class _Translation:
    """Translates a glob pattern. expression: the regular expression."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._braces = 0
        pieces = []
        while self._at < len(pattern):
            pieces.append(self._next())
        if self._braces:
            raise Refused(ProblemCode.BAD_PATTERN, "a { is not closed")
        self.expression = "".join(pieces)

    def _next(self) -> str:
        pattern, at = self._pattern, self._at
        if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] in "/{,"):
            self._at += 3
            return "(?:[^/]+/)*"
        if pattern[at:] == "**" and (at == 0 or pattern[at - 1] == "/"):
            self._at += 2
            return ".+"
        self._at += 1
        match pattern[at]:
            case "*":
                return "[^/]*"
            case "?":
                return "[^/]"
            case "[":
                return self._set()
            case "{":
                self._braces += 1
                return "(?:"
            case "," if self._braces:
                return "|"
            case "}" if self._braces:
                self._braces -= 1
                return ")"
            case "\\" if self._at < len(pattern):
                self._at += 1
                return _literal(pattern[self._at - 1])
            case other:
                return _literal(other)

    def _set(self) -> str:
        begin = self._at + (self._pattern[self._at : self._at + 1] in ("!", "^"))
        end = self._pattern.find("]", begin + 1)
        if end < 0:
            return _literal("[")
        negated = begin > self._at
        inside = "".join(c if c == "-" else _literal(c) for c in self._pattern[begin:end])
        self._at = end + 1
        return f"[^/{inside}]" if negated else f"[{inside}]"


def _literal(character: str) -> str:
    return character if character.isalnum() or ord(character) > 127 else f"\\x{{{ord(character):x}}}"
