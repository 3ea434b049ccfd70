"""Fills messages with styled lines and makes the platform's entities of their spans. Pure; called by `outbound`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from channels.text import utf16_length

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from channels.telegram.lines import EntityType, Line, Run, Style, Styles

MESSAGE_UNITS = 3840
"""UTF-16 units of a reply's text in one message; the platform takes 4096, the rest is for the status line."""
MESSAGE_SPANS = 94
"""Entities in one message; the platform honours 100."""
# How much may move on to the next message for the sake of a better place to cut. Together with the longest text that
# can still change its look this is less than one message: so only the last two ever change while a reply grows.
_CARRY_UNITS = 900
_CARRY_SPANS = 30


@dataclass(frozen=True, slots=True)
class Entity:
    """offset and length in UTF-16 units. url: of a text_link. language: of a pre."""

    type: EntityType
    offset: int
    length: int
    url: str | None = None
    language: str | None = None


@dataclass(slots=True)
class _Page:
    """The message being filled."""

    lines: list[Line]
    units: int = 0
    spans: int = 0

    def cost(self, line: Line) -> tuple[int, int]:
        if not self.lines:
            return line.units, line.spans
        shared = set(line.styles_at_start()) & set(self.lines[-1].styles_at_end())
        return line.units + line.newlines, line.spans - len(shared)

    def add(self, line: Line) -> None:
        units, spans = self.cost(line)
        self.units += units
        self.spans += spans
        self.lines.append(line)

    def fits(self, line: Line) -> bool:
        units, spans = self.cost(line)
        return self.units + units <= MESSAGE_UNITS and self.spans + spans <= MESSAGE_SPANS


def pack(lines: Iterable[Line]) -> list[tuple[Line, ...]]:
    """Messages' lines: as many as fit, ended at the best border near the end."""
    pages: list[tuple[Line, ...]] = []
    page = _Page([])
    for line in lines:
        if not page.fits(line):
            cut = _best_cut(page.lines, line)
            pages.append(tuple(page.lines[:cut]))
            carried = [*page.lines[cut:], line]
            page = _Page([])
            for moved in (*carried[0].repeat, *carried):
                page.add(moved)
        else:
            page.add(line)
    return [*pages, tuple(page.lines)]


def _best_cut(lines: Sequence[Line], following: Line) -> int:
    best, border = len(lines), following.border
    units = spans = 0
    for index in range(len(lines) - 1, 0, -1):
        line = lines[index]
        units += line.units + line.newlines
        spans += line.spans
        if units > _CARRY_UNITS or spans > _CARRY_SPANS:
            break
        if line.border > border:
            best, border = index, line.border
    return best


@lru_cache(maxsize=128)
def compose(lines: tuple[Line, ...], closing: tuple[Run, ...] = ()) -> tuple[str, tuple[Entity, ...]]:
    """A message's text and entities. closing: runs that follow after an empty line (the status)."""
    runs: list[Run] = []
    for line in lines:
        if runs and line.newlines:
            # A span that goes on in the next line includes the line's end.
            shared = tuple(style for style in runs[-1][1] if style in line.styles_at_start())
            runs.append(("\n" * line.newlines, shared))
        runs += line.runs
    runs = _trimmed(runs)
    if closing:
        runs = [*runs, ("\n\n", ()), *closing] if runs else list(closing)
    return "".join(text for text, _ in runs), _entities(runs)


def _trimmed(runs: list[Run]) -> list[Run]:
    """Without white space at the ends: the platform would take it off and so move the entities.

    The indentation of code at the beginning stays: there the platform keeps it.
    """
    while runs and not runs[-1][0].rstrip():
        runs = runs[:-1]
    while runs and not runs[0][0].lstrip(_edge(runs[0])):
        runs = runs[1:]
    if runs:
        text, styles = runs[0]
        runs = [(text.lstrip(_edge(runs[0])), styles), *runs[1:]]
        text, styles = runs[-1]
        runs = [*runs[:-1], (text.rstrip(), styles)]
    return runs


def _edge(run: Run) -> str | None:
    return "\n" if any(style.type == "pre" for style in run[1]) else None


def _entities(runs: Sequence[Run]) -> tuple[Entity, ...]:
    found: list[Entity] = []
    started: dict[Style, tuple[int, list[str]]] = {}
    offset = 0
    before: Styles = ()
    for text, styles in (*runs, ("", ())):
        for style in before:
            if style not in styles:
                found += _entity(style, *started.pop(style))
        for style in styles:
            started.setdefault(style, (offset, []))[1].append(text)
        offset += utf16_length(text)
        before = styles
    return tuple(sorted(found, key=lambda entity: (entity.offset, -entity.length, entity.type != "blockquote")))


def _entity(style: Style, offset: int, texts: list[str]) -> list[Entity]:
    """The span without white space at its edges; nothing if no text is left."""
    text = "".join(texts)
    if not text.strip():
        return []
    start = text if style.type == "pre" else text.lstrip()
    offset += utf16_length(text) - utf16_length(start)
    return [Entity(style.type, offset, utf16_length(start.rstrip()), style.url, style.language)]
