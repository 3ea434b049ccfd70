"""Texts as the rules read them: decoded, undisguised, each line classified as prose or code. Pure."""

from __future__ import annotations

import base64
import binascii
import json
import posixpath
import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass, replace
from enum import Flag, auto
from typing import TYPE_CHECKING

from harness.skills.scanning.kinds import PROSE, SHELL, SHELL_NAMES, extension, is_script
from harness.skills.verdict import Finding, Level

if TYPE_CHECKING:
    from collections.abc import Iterator

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
"""Words of a text that talks about something instead of requesting it."""
_SHELL_CELL = re.compile(r"\s*%%(?:bash|sh|script|system|!)")
"""The first line of a notebook's cell that is shell."""
_ADDRESS = re.compile(r"(?<!\w)\w+://\S+")
BEFORE = 3
"""Lines before a line, not counting blank ones, that can turn it into a mention."""
_TAGS = re.compile("[\U000e0001-\U000e007f]")
_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f")
"""Flags of England, Scotland and Wales: the only legitimate use of tag characters."""
_TURNED = re.compile("[\u202a-\u202e\u2066-\u2069]")
_SELECTORS = re.compile("[\U000e0100-\U000e01ef]|[\ufe00-\ufe0f]{2}")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u2060-\u2064\u206a-\u206f\u3164\uffa0]|(?<!^)\ufeff"
)
_JOINER = re.compile("[\u200c\u200d]")
_PRIVATE = re.compile("[\ue000-\uf8ff\U000f0000-\U0010fffd]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_TERMINAL = re.compile("\x1b|[\x80-\x9f]")
_COMMENT = re.compile(r"<!--(.*?)(?:-->|\Z)", re.DOTALL)
_DEMANDING = re.compile(
    r"(?i)\b(?:you (?:must|should|will|are|have to)|ignore|disregard|system|assistant|agent|model|claude|gpt|llm|ai"
    r"|instructions?"
    r"|always|never|run|execute|send|read|fetch|curl|download|upload|secret\w*|password|token|user|prompt|do not"
    r"|don't)\b|必须|忽略|执行|发送|读取"
)
_HIDING_STYLE = re.compile(
    r"(?i)<[^<>]{0,200}(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0|opacity\s*:\s*0[;\"'. ]"
    r"|\shidden[\s>]"
    r"|color\s*:\s*(?:#fff\b|#ffffff|white|transparent))"
)
_FAR_RIGHT = re.compile(r"\S[ \t\u00a0\u3000]{100,}\S")
_LETTERS = re.compile(r"[^\W\d_]")
_COMMENTS_SHOWN = 20
MOST_BLOBS = 200
"""Blobs of each kind that are decoded in one text."""
LONG_BLOB = 1500
"""Characters of a blob whose length alone calls for a review."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){16,}|(?:\\x[0-9a-fA-F]{2}){8,}|(?:0x[0-9a-fA-F]{2},?\s?){8,}")
_FOLDED = re.compile(
    r"(?m)^[\s\"'+(]{0,40}(?:[A-Za-z0-9/_-]{20,100}[\"',\\ +]{0,8}\n[\"' +]{0,40})+[A-Za-z0-9/_-]{1,100}={0,2}"
)
"""Base64 over several lines, as in a program or an email; in both, a plus sign may end a line."""
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/_-]")
_NOT_HEX = re.compile(r"\\x|0x|[,\s]")
_PICTURE = re.compile(r"data:(?:image|font|audio|video|application/(?:font|x-font|pdf))[\w/+.;-]*,?\s*\Z")
_PRINTABLE = 0.9


class Place(Flag):
    """Where in a skill a text is."""

    PROSE = auto()
    SHELL = auto()
    """A shell script, or a block of shell within prose."""
    CODE = auto()
    """Another program, or a block of one within prose."""
    DATA = auto()
    """Anything else, such as JSON."""
    FENCED = auto()
    """Additional flag: it is a block in prose."""
    RUN = SHELL | CODE
    ANYWHERE = PROSE | SHELL | CODE | DATA


@dataclass(frozen=True, slots=True)
class Text:
    """A file's text. raw: as written. lines: undisguised. places: one for each line."""

    path: str
    raw: str
    lines: tuple[str, ...]
    places: tuple[Place, ...]

    @property
    def joined(self) -> str:
        """The lines as one string, with shell continuations as blanks; its length is that of the lines."""
        return "\n".join(self.lines).replace("\\\n", "  ")

    def line_at(self, starts: list[int], offset: int) -> int:
        """Number, from 0, of the line that contains an offset of `joined`."""
        return bisect_right(starts, offset) - 1

    @property
    def starts(self) -> list[int]:
        """Offset in `joined` at which each line begins."""
        found, offset = [], 0
        for line in self.lines:
            found.append(offset)
            offset += len(line) + 1
        return found

    def is_mention(self, number: int) -> bool:
        """Whether the text only talks about a line's content: there, just before, or in the heading above."""
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
    """Whether it says that it is a mention. Names as in SUSPICIOUS_PATTERNS count as words, addresses do not."""
    return MENTION.search(_ADDRESS.sub("", line[:1000]).replace("_", " ")) is not None


def text_of(path: str, data: bytes, decoded: str, *, as_script: bool = False) -> Text:
    """A decoded file, line by line. as_script: treat it as a script although its name says otherwise."""
    lines = tuple(_undisguised(line) for line in decoded.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    ending = extension(path)
    if as_script or is_script(path, data):
        named = ending in SHELL | SHELL_NAMES or posixpath.basename(path).lower() in SHELL_NAMES
        is_shell = named or bool(_SHEBANG_SHELL.match(lines[0]))
        places = (Place.SHELL if is_shell else Place.CODE,) * len(lines)
    elif ending in PROSE or path == "SKILL.md":
        places = _prose(lines)
    else:
        places = (Place.DATA,) * len(lines)
    return Text(path, decoded, lines, places)


def decode(data: bytes) -> tuple[str, bool]:
    """The decoded text, and whether it was UTF-8."""
    try:
        return data.decode("utf-8-sig"), True
    except UnicodeDecodeError:
        pass
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace"), False
    return data.decode("latin-1"), False


def cells_of(path: str, decoded: str) -> Text | None:
    """The code of a notebook, one cell after the other; None if it is not a readable notebook."""
    try:
        found = json.loads(decoded)["cells"]
        cells = ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    lines: list[str] = []
    places: list[Place] = []
    for cell in cells:
        is_shell = _SHELL_CELL.match(cell) is not None
        for line in cell.splitlines():
            own = line.lstrip()
            lines.append(own[1:] if own.startswith("!") else line)
            places.append(Place.SHELL if is_shell or own.startswith("!") else Place.CODE)
    plain = "\n".join(lines).encode("utf-8", "replace").decode()  # JSON may contain half a surrogate pair
    return replace(text_of(path, b"", plain), places=tuple(places) or (Place.CODE,))


def _undisguised(line: str) -> str:
    """A line as a reader perceives it: without invisible characters and lookalike letters."""
    if line.isascii():
        return line
    plain = unicodedata.normalize("NFKC", _UNSEEN.sub("", line)).replace("\n", " ").replace("\r", " ")
    return plain.translate(_LOOKALIKES)


def _prose(lines: tuple[str, ...]) -> tuple[Place, ...]:
    """Distinguish prose from fenced blocks, by CommonMark's rules for fences."""
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


def hidden_findings(path: str, raw: str) -> Iterator[Finding]:
    """Findings of hidden text, at most a few of each kind."""
    yield from _signs(path, raw)
    for found in _first(_FAR_RIGHT, raw):
        yield _finding(Level.WARN, "far-right", path, raw, found.start(), raw[found.end() - 1 : found.end() + 80])
    if extension(path) in PROSE:
        yield from _comments(path, raw)
        for found in _first(_HIDING_STYLE, raw):
            yield _finding(Level.WARN, "hidden-style", path, raw, found.start(), found.group()[:80])


def _signs(path: str, raw: str) -> Iterator[Finding]:
    if raw.isascii():
        for found in (*_first(_CONTROL, raw), *_first(_TERMINAL, raw)):
            yield _finding(Level.WARN, "control-signs", path, raw, found.start(), _shown(found.group()))
        return
    raw = _FLAG.sub(lambda found: "x" * len(found.group()), raw)
    for rule, pattern in (("tag-signs", _TAGS), ("turned-text", _TURNED), ("tag-signs", _SELECTORS)):
        for found in _first(pattern, raw):
            yield _finding(Level.BLOCK, rule, path, raw, found.start(), _around(raw, found.start()))
    for pattern, rule in ((_INVISIBLE, "unseen-signs"), (_PRIVATE, "unseen-signs"), (_CONTROL, "control-signs")):
        for found in _first(pattern, raw):
            yield _finding(Level.WARN, rule, path, raw, found.start(), _around(raw, found.start()))
    for found in _TERMINAL.finditer(raw):
        yield _finding(Level.WARN, "control-signs", path, raw, found.start(), _shown(found.group()))
        break
    for found in _JOINER.finditer(raw):
        if _parts_latin(raw, found.start()):
            yield _finding(Level.WARN, "unseen-signs", path, raw, found.start(), _around(raw, found.start()))
            break


def _parts_latin(raw: str, place: int) -> bool:
    """Whether a joiner separates Latin letters: it belongs only between characters of some scripts and emoji."""
    around = raw[max(place - 1, 0) : place] + raw[place + 1 : place + 2]
    return any(sign.isascii() and sign.isalnum() for sign in around)


def _comments(path: str, raw: str) -> Iterator[Finding]:
    shown = 0
    for found in _COMMENT.finditer(raw):
        body = found[1].strip()
        if _DEMANDING.search(body) and len(_LETTERS.findall(body[:400])) > 12:
            yield _finding(Level.WARN, "hidden-comment", path, raw, found.start(), body[:120])
            shown += 1
        if shown >= _COMMENTS_SHOWN:
            return


def _first(pattern: re.Pattern[str], raw: str) -> Iterator[re.Match[str]]:
    """Only the first match: where there is one there are usually many."""
    found = pattern.search(raw)
    if found:
        yield found


def _finding(level: Level, rule: str, path: str, raw: str, place: int, excerpt: str) -> Finding:
    return Finding(level, rule, path, raw.count("\n", 0, place) + 1, " ".join(excerpt.split()))


def _around(raw: str, place: int) -> str:
    return _shown(raw[max(0, raw.rfind("\n", 0, place) + 1, place - 30) : place + 30].split("\n")[0])


def _shown(text: str) -> str:
    """The text with invisible characters written as escapes."""
    return "".join(
        f"\\u{{{ord(sign):04X}}}" if unicodedata.category(sign) in ("Cc", "Cf", "Co", "Cn", "Mn") else sign
        for sign in text
    )


@dataclass(frozen=True, slots=True)
class Blob:
    """Encoded data within a text. offset: of its start. long: its length alone calls for a review. data: decoded."""

    offset: int
    long: bool
    data: bytes


def blobs(text: str) -> Iterator[Blob]:
    """Base64 and hex within a text, decoded; pictures are omitted."""
    for pattern, decoded in ((_BASE64, _from_base64), (_FOLDED, _from_base64), (_HEX, _from_hex)):
        for number, found in enumerate(pattern.finditer(text)):
            if number >= MOST_BLOBS:
                return
            if _PICTURE.search(text, max(found.start() - 60, 0), found.start()):
                continue
            yield Blob(found.start(), len(found.group()) >= LONG_BLOB, decoded(found.group()))


def speech(data: bytes) -> str:
    """Decode bytes that are readable text; "" for others."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    shown = sum(sign.isprintable() or sign in "\n\t\r" for sign in text)
    return text if text and shown / len(text) >= _PRINTABLE else ""


def _from_base64(text: str) -> bytes:
    plain = _NOT_BASE64.sub("", text).translate(str.maketrans("-_", "+/"))
    plain = plain[: len(plain) - (len(plain) % 4 == 1)]
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4))
    except binascii.Error:
        return b""


def _from_hex(text: str) -> bytes:
    plain = _NOT_HEX.sub("", text)
    return bytes.fromhex(plain[: len(plain) - len(plain) % 2])
