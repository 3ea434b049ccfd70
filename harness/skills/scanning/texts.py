"""Texts as the rules read them: decoded, without disguise, each line known as prose or code; used by scan.py. Pure."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass
from enum import Flag, auto

from harness.skills.scanning.kinds import PROSE, SHELL, extension, is_script

_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2060-\u206f\u3164\ufeff\uffa0]"
)
_LOOKALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u0261\u03bf\u03b1\u03b5\u03b9\u03bd\u03c1\u0131\u2044\u2215",
    "aeopcyxijsdgoaeivpi//",
)
_FENCE = re.compile(r" {0,3}(?:> ?)*+(?:[-*+] ++|\d{1,9}[.)] ++)?[ \t]*+(`{3,}+|~{3,}+)[ \t]*+([\w+#.-]*+)")
_HEADING = re.compile(r" {0,3}#{1,6}\s")
_SHELL_FENCES = SHELL | {"console", "shell", "shell-session", "terminal", "", "bash-session", "command", "cmd"}
_SHEBANG_SHELL = re.compile(r"#!.*\b(?:ba|da|z|k|fi)?sh\b")
MENTION = re.compile(
    r"(?i)\b(?:never|do not|don'?t|must not|should not|avoid|instead of|flags?|flagged|detect\w*|look for|reject\w*"
    r"|refuse\w*|e\.g\.|such as|examples?|patterns?|attack\w*|malicious|dangerous|injections?|suspicious|risk\w*|bad"
    r"|wrong|vulnerab\w*|unsafe|insecure|warn\w*|red flags?|anti-?patterns?|threat\w*|audit\w*|harmful|destructive"
    r"|blocked|phishing|checks? for|search(?:es)? for|grep)\b|危险|不要|禁止|切勿|例如|攻击|检测|避免|恶意|警告"
)
"""What a text says that speaks about something instead of asking for it."""
_ADDRESS = re.compile(r"(?<!\w)\w+://\S+")
BEFORE = 3
"""Lines in front of one, blank ones left out, that may say so."""


class Place(Flag):
    """Where in a skill something stands."""

    PROSE = auto()
    SHELL = auto()
    """Of a script, or of a block in prose that is for a shell."""
    CODE = auto()
    """Of any other program, likewise."""
    DATA = auto()
    """Of neither."""
    FENCED = auto()
    """Besides: it is a block in prose."""
    RUN = SHELL | CODE
    ANYWHERE = PROSE | SHELL | CODE | DATA


@dataclass(frozen=True, slots=True)
class Text:
    """One text. lines: without disguise, places: one for each of them. raw: as it was written."""

    path: str
    raw: str
    lines: tuple[str, ...]
    places: tuple[Place, ...]

    @property
    def joined(self) -> str:
        """In one piece, a shell's continued lines with blanks in between; as many characters as the lines have."""
        return "\n".join(self.lines).replace("\\\n", "  ")

    def line_at(self, starts: list[int], offset: int) -> int:
        """The number, from 0, of the line in which an offset of `joined` lies."""
        return bisect_right(starts, offset) - 1

    @property
    def starts(self) -> list[int]:
        """Where in `joined` each line begins."""
        found, offset = [], 0
        for line in self.lines:
            found.append(offset)
            offset += len(line) + 1
        return found

    def is_mention(self, number: int) -> bool:
        """Whether the text rather speaks about what stands in that line: it says so there, just before, or in the
        heading above."""
        if _says_so(self.lines[number]):
            return True
        seen = 0
        for index in range(number - 1, -1, -1):
            line = self.lines[index]
            if not line.strip() or _FENCE.match(line):
                continue
            is_heading = bool(_HEADING.match(line)) and not self.places[index] & Place.FENCED
            if (seen < BEFORE or is_heading) and _says_so(line):
                return True
            seen += 1
            if is_heading or number - index > 60:
                return False
        return False


def _says_so(line: str) -> bool:
    """Names of a program, as in SUSPICIOUS_PATTERNS, are words too; what is in an address is none."""
    return MENTION.search(_ADDRESS.sub("", line[:1000]).replace("_", " ")) is not None


def text_of(path: str, data: bytes, decoded: str, *, as_script: bool = False) -> Text:
    """as_script: whatever its name says."""
    lines = tuple(_undisguised(line) for line in decoded.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    ending = extension(path)
    if as_script or is_script(path, data):
        is_shell = ending in SHELL or bool(_SHEBANG_SHELL.match(lines[0]))
        places = (Place.SHELL if is_shell else Place.CODE,) * len(lines)
    elif ending in PROSE or path == "SKILL.md":
        places = _prose(lines)
    else:
        places = (Place.DATA,) * len(lines)
    return Text(path, decoded, lines, places)


def decode(data: bytes) -> tuple[str, bool]:
    """The text, and whether it is UTF-8."""
    try:
        return data.decode("utf-8-sig"), True
    except UnicodeDecodeError:
        pass
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace"), False
    return data.decode("latin-1"), False


def _undisguised(line: str) -> str:
    """As it would be read: no signs that cannot be seen, no letters that only look like others."""
    if line.isascii():
        return line
    plain = unicodedata.normalize("NFKC", _UNSEEN.sub("", line)).replace("\n", " ").replace("\r", " ")
    return plain.translate(_LOOKALIKES)


def _prose(lines: tuple[str, ...]) -> tuple[Place, ...]:
    """Which lines are prose and which belong to a fenced block, by CommonMark's rules for fences."""
    places: list[Place] = []
    fence, inside = "", Place.PROSE
    for line in lines:
        found = _FENCE.match(line)
        if not fence:
            places.append(Place.PROSE)
            if found:
                fence = found[1]
                shell = found[2].lower() in _SHELL_FENCES
                inside = (Place.SHELL if shell else Place.CODE) | Place.FENCED
        elif found and found[1].startswith(fence) and not line[found.end() :].strip() and not found[2]:
            places.append(Place.PROSE)
            fence = ""
        else:
            places.append(inside)
    return tuple(places)
