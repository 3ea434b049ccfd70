"""Styled lines of chat text: the form of a reply before `layout` packs it into messages."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from channels.capabilities import TextUnit
from channels.text.split import cut, utf16_length

if TYPE_CHECKING:
    from collections.abc import Iterable

EntityType = Literal[
    "bold", "italic", "strikethrough", "spoiler", "code", "pre", "text_link", "blockquote", "expandable_blockquote"
]

LONGEST_LINE = 800
"""UTF-16 units; a longer line is split into pieces, so that messages can be cut between them."""
_MOST_SPANS = 25
# Clients turn these into links automatically, and some act at once when opened; a word joiner inside prevents it.
_APP_LINK = re.compile(r"\b(?:tg|ton|tonsite):(?=//)", re.IGNORECASE)
_WORD_JOINER = "\u2060"

BEFORE_HEADING, BEFORE_BLOCK, BEFORE_LINE, BEFORE_WORD, NOWHERE = 4, 3, 2, 1, 0
"""How suitable a message break before a line is, best first."""


@dataclass(frozen=True, slots=True, eq=False)
class Style:
    """One formatted span. Two spans of one type are two objects, even if adjacent."""

    type: EntityType
    url: str | None = None
    language: str | None = None


Styles: TypeAlias = tuple[Style, ...]
Run: TypeAlias = tuple[str, Styles]


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """newlines: before it, 0 if it continues the line above. border: how suitable a message break before it is.

    repeat: lines shown first in a message that begins here (the head of a table). units: UTF-16 units without the
    newlines. spans: the most entities it can add.
    """

    runs: tuple[Run, ...]
    newlines: int
    border: int
    repeat: tuple[Line, ...] = ()
    units: int = field(init=False)
    spans: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", sum(utf16_length(text) for text, _ in self.runs))
        object.__setattr__(self, "spans", _spans(self.runs))

    def styles_at_start(self) -> Styles:
        return self.runs[0][1] if self.runs else ()

    def styles_at_end(self) -> Styles:
        return self.runs[-1][1] if self.runs else ()


def make_lines(runs: list[Run], newlines: int, border: int, repeat: tuple[Line, ...] = ()) -> list[Line]:
    """One line, split into pieces if it is long or has many spans, with links that open apps disarmed."""
    text = "".join(part for part, _ in runs)
    if "://" in text and _APP_LINK.search(text):
        runs = _disarmed(runs, text)
        text = "".join(part for part, _ in runs)
    if utf16_length(text) <= LONGEST_LINE and _spans(runs) <= _MOST_SPANS:
        return [Line(tuple(runs), newlines, border, repeat)]
    lines: list[Line] = []
    left = _Left(runs)
    start = 0
    while start < len(text):
        end = start + cut(text[start : start + LONGEST_LINE + 1], LONGEST_LINE, TextUnit.UTF16)
        piece = left.peek(end - start)
        if _spans(piece) > _MOST_SPANS:
            room = _room_for_spans(piece)
            end = start + cut(text[start:end], utf16_length(text[start : start + room]), TextUnit.UTF16)
            piece = left.peek(end - start)
        left.drop(end - start)
        if start:
            newlines, border = 0, BEFORE_WORD if text[start - 1].isspace() else NOWHERE
        lines.append(Line(tuple(piece), newlines, border, repeat))
        start = end
    return lines


def _spans(runs: Iterable[Run]) -> int:
    added = 0
    before: Styles = ()
    for _, styles in runs:
        added += sum(style not in before for style in styles)
        before = styles
    return added


def _room_for_spans(runs: list[Run]) -> int:
    """The number of characters before the first span that exceeds the limit."""
    room = 0
    for count, (text, _) in enumerate(runs, 1):
        if _spans(runs[:count]) > _MOST_SPANS:
            break
        room += len(text)
    return room


class _Left:
    """The runs of a line that are not yet in a piece."""

    def __init__(self, runs: list[Run]) -> None:
        self._runs = runs
        self._index = 0
        self._offset = 0

    def peek(self, length: int) -> list[Run]:
        """The next `length` characters."""
        piece: list[Run] = []
        index, offset = self._index, self._offset
        while length > 0 and index < len(self._runs):
            text, styles = self._runs[index]
            inside = text[offset : offset + length]
            if inside:
                piece.append((inside, styles))
            length -= len(inside)
            index, offset = index + 1, 0
        return piece

    def drop(self, length: int) -> None:
        self._offset += length
        while self._index < len(self._runs) and self._offset >= len(self._runs[self._index][0]):
            self._offset -= len(self._runs[self._index][0])
            self._index += 1


def _disarmed(runs: list[Run], text: str) -> list[Run]:
    result: list[Run] = []
    places = [match.end() for match in _APP_LINK.finditer(text)]
    position = 0
    for part, styles in runs:
        inside = [place - position for place in places if position < place <= position + len(part)]
        position += len(part)
        if not any(style.type in ("code", "pre") for style in styles):
            for place in reversed(inside):
                part = part[:place] + _WORD_JOINER + part[place:]
        result.append((part, styles))
    return result
