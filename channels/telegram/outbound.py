"""Lays a reply out as Telegram messages: text with entities, never a parse mode, so that no answer can be refused.

Pure; `channel` calls `layout` for every edit of a growing reply.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from channels.base import Part
from channels.capabilities import TextUnit
from channels.telegram.lines import BEFORE_LINE, Line, Run, Style, make_lines
from channels.telegram.packing import Entity, compose, pack
from channels.telegram.render import render
from channels.text import is_blank, one_line, sanitize, segments
from channels.text.split import fitting, safe_cut

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from channels.message import AttachmentKind, Button, OutboundFile, OutboundMessage

FILE_AFTER_PARTS = 4
"""A finished reply of more text messages than this comes as a file as well."""
_STATUS_UNITS = 240
# A message with buttons needs a text.
_BUTTONS_ONLY = "👇"

Keyboard: TypeAlias = tuple[tuple[tuple[str, str], ...], ...]
"""Rows of (label, data)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TelegramFile:
    """A file on this machine (path), or one made here (content)."""

    name: str
    mime_type: str
    kind: AttachmentKind
    path: Path | None = None
    content: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class TelegramPart(Part):
    """One message. text: 1 to 4096 UTF-16 units without white space at the ends, or "" for a file (its caption)."""

    text: str = ""
    entities: tuple[Entity, ...] = ()
    keyboard: Keyboard = ()
    file: TelegramFile | None = None


def layout(message: OutboundMessage) -> tuple[TelegramPart, ...]:
    """The messages that show a reply: its text, then its files; () when there is nothing to see.

    While the text grows, all but the last two keep their rendering.
    """
    growing = not message.final
    rendered = [render(segment) for segment in segments(message.text, growing=growing)]
    pages = _visible([line for piece in rendered for line in piece.lines])
    status = _status(message.status) if growing or not pages else ()
    if not pages and not status:
        # Only marks, such as a fence that has just been opened: better as they are than nothing.
        pages = _visible(_verbatim(message.text))
    if status or (message.buttons and not pages):
        pages = pages or [()]
    parts = [_text_part(index, page, status if index == len(pages) - 1 else ()) for index, page in enumerate(pages)]
    if message.buttons:
        parts[-1] = replace(parts[-1], keyboard=_keyboard(message.buttons))
    files = [_file(file) for file in message.files]
    if message.final:
        wide_tables = [table for piece in rendered for table in piece.wide_tables]
        files = [*_generated(message.text, len(parts), wide_tables), *files]
    return (*parts, *(TelegramPart(len(parts) + index, file=file) for index, file in enumerate(files)))


def _visible(lines: Sequence[Line]) -> list[tuple[Line, ...]]:
    """The lines in messages, without those that the platform would refuse as empty."""
    return [page for page in pack(lines) if not is_blank("".join(text for line in page for text, _ in line.runs))]


def _text_part(index: int, page: tuple[Line, ...], status: tuple[Run, ...]) -> TelegramPart:
    text, entities = compose(page, status)
    return TelegramPart(index, text=text or _BUTTONS_ONLY, entities=entities)


def _status(status: str) -> tuple[Run, ...]:
    """One line in italics, cut to its room; nothing when it would not be seen."""
    line = one_line(status)
    if is_blank(line):
        return ()
    end = fitting(line, _STATUS_UNITS, TextUnit.UTF16)
    if end < len(line):
        line = line[: safe_cut(line, end - 1)] + "…"
    return make_lines([(line, (Style("italic"),))], 0, 0)[0].runs


def _verbatim(text: str) -> list[Line]:
    return [line for source in sanitize(text).split("\n") for line in make_lines([(source, ())], 1, BEFORE_LINE)]


def _keyboard(buttons: tuple[tuple[Button, ...], ...]) -> Keyboard:
    return tuple(tuple((one_line(button.label), button.data) for button in row) for row in buttons)


def _generated(text: str, parts: int, wide_tables: Sequence[str]) -> list[TelegramFile]:
    """The whole answer as a file when it is long; else the tables that a phone cannot show side by side."""
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
