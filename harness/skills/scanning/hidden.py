"""What a reader does not see: signs without a shape, turned writing, comments in Markdown; used by scan.py. Pure."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from harness.skills.scanning.kinds import PROSE, extension
from harness.skills.verdict import Finding, Level

if TYPE_CHECKING:
    from collections.abc import Iterator

_TAGS = re.compile("[\U000e0001-\U000e007f]")
_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f")
"""Of England, Scotland and Wales: the one place where they belong."""
_TURNED = re.compile("[\u202a-\u202e\u2066-\u2069]")
_SELECTORS = re.compile("[\U000e0100-\U000e01ef]|[\ufe00-\ufe0f]{2}")
_UNSEEN = re.compile(
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


def hidden_findings(path: str, raw: str) -> Iterator[Finding]:
    """At most a few of each kind."""
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
    for pattern, rule in ((_UNSEEN, "unseen-signs"), (_PRIVATE, "unseen-signs"), (_CONTROL, "control-signs")):
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
    """A joiner belongs between signs of some scripts and between emoji, never between Latin letters."""
    beside = raw[max(place - 1, 0) : place] + raw[place + 1 : place + 2]
    return any(sign.isascii() and sign.isalnum() for sign in beside)


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
    """The first one: where there is one there are mostly many."""
    found = pattern.search(raw)
    if found:
        yield found


def _finding(level: Level, rule: str, path: str, raw: str, place: int, excerpt: str) -> Finding:
    return Finding(level, rule, path, raw.count("\n", 0, place) + 1, " ".join(excerpt.split()))


def _around(raw: str, place: int) -> str:
    return _shown(raw[max(0, raw.rfind("\n", 0, place) + 1, place - 30) : place + 30].split("\n")[0])


def _shown(text: str) -> str:
    """With what cannot be seen written out."""
    return "".join(
        f"\\u{{{ord(sign):04X}}}" if unicodedata.category(sign) in ("Cc", "Cf", "Co", "Cn", "Mn") else sign
        for sign in text
    )
