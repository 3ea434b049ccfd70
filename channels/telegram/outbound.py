"""Lays out a reply as Telegram messages: text with entities, never a parse mode, so that no answer can be refused.

Pure; `channel` calls `layout` for every edit of a growing reply.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from channels.adapter import Keyboard, keyboard
from channels.base import Part
from channels.capabilities import TextUnit
from channels.telegram.lines import BEFORE_LINE, Line, Run, Style, make_lines
from channels.telegram.render import render
from channels.text.parse import segments
from channels.text.sanitize import is_blank, sanitize, seen_line, seen_lines
from channels.text.split import shortened, utf16_length

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from channels.message import AttachmentKind, OutboundFile, OutboundMessage
    from channels.telegram.lines import EntityType, Styles

MESSAGE_UNITS = 3840
"""UTF-16 units of a reply's text in one message; the platform accepts 4096, the rest is for the status line."""
MESSAGE_SPANS = 94
"""Entities in one message; the platform honors 100."""
# How much may move to the next message to get a better place to cut. Together with the longest text whose look can
# still change this is less than one message, so only the last two messages ever change while a reply grows.
_CARRY_UNITS = 900
_CARRY_SPANS = 30
FILE_AFTER_PARTS = 4
"""A finished reply of more text messages than this is also sent as a file."""
_STATUS_UNITS = 240
_CLOSING_UNITS = 1800
"""Longest text below a reply that leaves room for it."""
# A message with buttons needs a text.
_BUTTONS_ONLY = "👇"


@dataclass(frozen=True, slots=True)
class Entity:
    """A formatted range. offset and length in UTF-16 units. url: of a text_link. language: of a pre."""

    type: EntityType
    offset: int
    length: int
    url: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TelegramFile:
    """A file on this machine (path), or one generated here (content)."""

    name: str
    mime_type: str
    kind: AttachmentKind
    path: Path | None = None
    content: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class TelegramPart(Part):
    """One message. text: 1 to 4096 UTF-16 units without whitespace at the ends, or "" for a file (its caption).

    asks_reply: it opens the reply field of its recipient.
    """

    text: str = ""
    entities: tuple[Entity, ...] = ()
    keyboard: Keyboard = ()
    file: TelegramFile | None = None
    asks_reply: bool = False


def layout(message: OutboundMessage) -> tuple[TelegramPart, ...]:
    """The messages that show a reply: its text, then its files; () if nothing is visible.

    While the text grows, all but the last two keep their rendering.
    """
    growing = not message.final
    rendered = [render(segment) for segment in segments(message.text, growing=growing)]
    pages = _visible([line for piece in rendered for line in piece.lines])
    status = seen_lines(message.status, _CLOSING_UNITS) if growing or not pages else ""
    if not pages and not status:
        # If there are only marks, such as a fence that was just opened, show them verbatim rather than nothing.
        pages = _visible(_verbatim(message.text))
    if status or (message.buttons and not pages):
        pages = pages or [()]
    closing = _closing(pages[-1], status, message.done) if pages else ()
    parts = [_text_part(index, page, closing if index == len(pages) - 1 else ()) for index, page in enumerate(pages)]
    if message.buttons:
        parts[-1] = replace(parts[-1], keyboard=keyboard(message.buttons))
    elif message.asks_reply and parts:
        parts[-1] = replace(parts[-1], asks_reply=True)
    files = [_file(file) for file in message.files]
    if message.final:
        wide_tables = [table for piece in rendered for table in piece.wide_tables]
        files = [*_generated(message.text, len(parts), wide_tables), *files]
    return (*parts, *(TelegramPart(len(parts) + index, file=file) for index, file in enumerate(files)))


def _visible(lines: Sequence[Line]) -> list[tuple[Line, ...]]:
    """The lines packed into messages, without messages that the platform would refuse as empty."""
    return [page for page in pack(lines) if not is_blank("".join(text for line in page for text, _ in line.runs))]


def _text_part(index: int, page: tuple[Line, ...], status: tuple[Run, ...]) -> TelegramPart:
    text, entities = compose(page, status)
    return TelegramPart(index, text=text or _BUTTONS_ONLY, entities=entities)


def _closing(page: tuple[Line, ...], status: str, done: Sequence[str]) -> tuple[Run, ...]:
    """The text below the last page: the current status, in italics, or the work done, in an expandable quote. Cut to
    the available room; of a status that needs more, only the last line."""
    room = min(_CLOSING_UNITS, MESSAGE_UNITS + _STATUS_UNITS - utf16_length(compose(page)[0]))
    if status:
        text, style = seen_lines(status, room // 2), Style("italic")
        room = room if "\n" in text else _STATUS_UNITS
    else:
        text, style = "\n".join(filter(None, map(seen_line, done))), Style("expandable_blockquote")
    runs: list[Run] = []
    for line in shortened(text, room, TextUnit.UTF16).split("\n") if text else []:
        runs += [("\n", (style,))] if runs else []
        runs += [run for piece in make_lines([(line, (style,))], 0, 0) for run in piece.runs]
    return tuple(runs)


def _verbatim(text: str) -> list[Line]:
    return [line for source in sanitize(text).split("\n") for line in make_lines([(source, ())], 1, BEFORE_LINE)]


def _generated(text: str, parts: int, wide_tables: Sequence[str]) -> list[TelegramFile]:
    """The whole answer as a file if it is long; else the tables that a phone cannot show in columns."""
    if parts > FILE_AFTER_PARTS:
        return [_markdown_file("answer.md", sanitize(text))]
    if wide_tables:
        return [_markdown_file("tables.md", "\n\n".join(wide_tables))]
    return []


def _markdown_file(name: str, text: str) -> TelegramFile:
    content = text.strip("\n") + "\n"
    return TelegramFile(name=name, mime_type="text/markdown", kind="file", content=content.encode())


def _file(file: OutboundFile) -> TelegramFile:
    return TelegramFile(name=file.name, mime_type=file.mime_type, kind=file.kind, path=file.path)


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
    """The lines of each message: as many as fit, ended at the best border near the end."""
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
            # A span that continues in the next line includes the line end.
            shared = tuple(style for style in runs[-1][1] if style in line.styles_at_start())
            runs.append(("\n" * line.newlines, shared))
        runs += line.runs
    runs = _trimmed(runs)
    if closing:
        runs = [*runs, ("\n\n", ()), *closing] if runs else list(closing)
    return "".join(text for text, _ in runs), _entities(runs)


def _trimmed(runs: list[Run]) -> list[Run]:
    """The runs without whitespace at the ends: the platform would strip it and so shift the entities.

    The indentation of code at the beginning stays: the platform keeps it there.
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
    """The span without whitespace at its edges; nothing if no text is left."""
    text = "".join(texts)
    if not text.strip():
        return []
    start = text if style.type == "pre" else text.lstrip()
    offset += utf16_length(text) - utf16_length(start)
    return [Entity(style.type, offset, utf16_length(start.rstrip()), style.url, style.language)]
