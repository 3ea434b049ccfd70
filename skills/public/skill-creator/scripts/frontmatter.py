"""The front matter of a SKILL.md, read without any package: the plain part of YAML. For document.py.

What it does not read it refuses, with the simpler way to write it; what it reads it reads as YAML does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

DEEPEST = 8
_KEY = re.compile(r"([A-Za-z_][\w.-]*):(?:[ ]+(.*))?$")
_QUOTED_KEY = re.compile(r"""["'?]""")
_HEAD = re.compile(r"([>|])([+-]?)(?:[ ]+#.*)?$")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/", "0": "\0", "r": "\r", " ": " "}
_NOT_PLAIN = re.compile(r"[\[\]{},&*!|>%@`\"'#]|[-?:](?:[ ]|$)|---|\.\.\.")


_ODD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


class NotPlain(Exception):
    """line: of the file, from 1. The text says what is wrong and how to write it."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(f"line {line}: {text}")
        self.line = line


@dataclass
class _Line:
    number: int
    indent: int
    text: str
    """Without its indent; a comment that takes the whole line makes it ""."""


def read(front: str, first: int = 2) -> dict[str, Any]:
    """Keys and values: text, lists, mappings. first: the number of its first line. Raises NotPlain."""
    lines = []
    for number, raw in enumerate(front.split("\n"), first):
        body = raw.lstrip(" ")
        if _ODD.search(raw):
            raise NotPlain("has a sign that cannot be seen; take it out", number)
        if "\t" in raw:
            raise NotPlain("has a tab; use blanks", number)
        lines.append(_Line(number, len(raw) - len(body), body.rstrip(" ")))
    return _Reader(lines).mapping(0, 1)


class _Reader:
    def __init__(self, lines: list[_Line]) -> None:
        self._lines = lines
        self._at = 0

    def mapping(self, indent: int, depth: int) -> dict[str, Any]:
        if depth > DEEPEST:
            raise NotPlain(f"nested deeper than {DEEPEST} levels", self._lines[self._at].number)
        values: dict[str, Any] = {}
        while True:
            line = self._next()
            if line is None or line.indent < indent:
                return values
            found = _KEY.match(line.text)
            if line.indent > indent or found is None:
                raise NotPlain(f'"{line.text[:40]}" should be a line `key: value`', line.number)
            if found[1] in values:
                raise NotPlain(f"{found[1]} stands there twice", line.number)
            self._at += 1
            values[found[1]] = self._value((found[2] or "").strip(" "), line, depth)

    def _next(self) -> _Line | None:
        """The line that says something, comments left out."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.text and not line.text.startswith("#"):
                return line
            self._at += 1
        return None

    def _value(self, text: str, line: _Line, depth: int) -> Any:
        head = _HEAD.match(text)
        if head is not None:
            return self._block(line.indent, folded=head[1] == ">")
        if text.startswith("#"):
            text = ""
        if not text:
            return self._below(line, depth)
        if text[0] in "\"'":
            return self._ended(_quoted(text, line.number), line)
        if text[0] == "[":
            return self._ended(_flow(text, line.number), line)
        if text.startswith("{"):
            raise NotPlain("write a mapping as indented lines `key: value`", line.number)
        return self._plain(text, line)

    def _below(self, line: _Line, depth: int) -> Any:
        """A list or a mapping on the following lines; "" where there is none."""
        following = self._next()
        if following is not None and _is_item(following) and following.indent >= line.indent:
            return self._items(following.indent)
        if following is None or following.indent <= line.indent:
            return ""
        if _KEY.match(following.text):
            return self.mapping(following.indent, depth + 1)
        self._at += 1
        return self._plain(following.text, line)

    def _items(self, indent: int) -> list[str]:
        items = []
        while True:
            line = self._next()
            if line is None or line.indent < indent or (line.indent == indent and not _is_item(line)):
                return items
            text = line.text[1:].strip(" ")
            if line.indent > indent or _is_item(_Line(0, 0, text)) or _KEY.match(text) or not text:
                raise NotPlain("an item of a list has to be a word or a text on one line", line.number)
            self._at += 1
            items.append(_quoted(text, line.number) if text[0] in "\"'" else self._plain(text, line))

    def _ended(self, value: Any, line: _Line) -> Any:
        """What is quoted or in brackets has to end on its line."""
        following = self._next()
        if following is not None and following.indent > line.indent:
            raise NotPlain(
                "goes on below a value that has ended; write it with `>-` and indented lines", following.number
            )
        return value

    def _plain(self, text: str, line: _Line) -> str:
        parts = [_bare(text, line.number)]
        while self._at < len(self._lines):
            following = self._lines[self._at]
            if following.text and following.indent <= line.indent:
                break
            if following.text.startswith("#") or text.find(" #") >= 0:
                break
            if following.text:
                if _KEY.match(following.text) or following.text.endswith(":"):
                    raise NotPlain(
                        "is this a new key? then it is indented too far; else write `>-` above", following.number
                    )
                parts.append(_continued(following.text, following.number))
            self._at += 1
        return " ".join(part for part in parts if part)

    def _block(self, indent: int, *, folded: bool) -> str:
        """After > or |; spaces and line ends count as one blank each where they are read."""
        kept: list[str] = []
        own = 0
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.text and line.indent <= indent:
                break
            if line.text and not own:
                own = line.indent
            if line.text and line.indent < own:
                raise NotPlain("is indented less than the lines above it", line.number)
            kept.append(line.text)
            self._at += 1
        return (" " if folded else "\n").join(kept).strip(" ")


def _is_item(line: _Line) -> bool:
    return line.text == "-" or line.text.startswith("- ")


def _bare(text: str, line: int) -> str:
    """A value without quotes."""
    if _NOT_PLAIN.match(text):
        raise NotPlain(f"a value cannot begin with {text[0]}; put it into double quotes", line)
    return _continued(text, line)


def _continued(text: str, line: int) -> str:
    text = re.split(r"[ ]#", text, maxsplit=1)[0].rstrip(" ")
    if re.search(r":(?:[ ]|$)", text):
        raise NotPlain("has a colon and a blank in its text; write the value with `>-` and an indented line", line)
    return text


def _quoted(text: str, line: int) -> str:
    sign = text[0]
    found = re.match(r"'((?:[^']|'')*)'" if sign == "'" else r'"((?:[^"\\]|\\.)*)"', text)
    rest = text[found.end() :].strip(" ") if found is not None else ""
    if found is None or (rest and not re.match(r"[ ]+#", text[found.end() :])):
        raise NotPlain(f"the quotation mark {sign} has no end on its line, or something stands behind it", line)
    if sign == "'":
        return found[1].replace("''", "'")
    return re.sub(r"\\(.)", lambda escape: _escaped(escape[1], line), found[1])


def _escaped(sign: str, line: int) -> str:
    if sign not in _ESCAPES:
        raise NotPlain(f"\\{sign} is not known; write the sign itself", line)
    return _ESCAPES[sign]


def _flow(text: str, line: int) -> list[str]:
    found = re.match(r"\[([^\[\]{}#]*)\][ ]*(?:[ ]#.*)?$", text)
    if found is None:
        raise NotPlain("a list in brackets has to be simple and end on its line; write `- item` lines", line)
    parts = [part.strip(" ") for part in found[1].split(",")]
    if parts[-1] == "":
        parts.pop()
    if any(not part for part in parts):
        raise NotPlain("has an empty place between two commas", line)
    return [_quoted(part, line) if part[0] in "\"'" else _bare(part, line) for part in parts]
