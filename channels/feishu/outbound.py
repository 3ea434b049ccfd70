"""Lays a reply out as Feishu messages: pages of the card's Markdown, then files. Pure.

`layout` is called for every edit of a growing reply.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from channels.base import Part
from channels.text import is_blank, one_line, safe_cut
from channels.text.dialect import Dialect, escape_marks
from channels.text.markdown import pages

if TYPE_CHECKING:
    from pathlib import Path

    from channels.message import AttachmentKind, Button, OutboundFile, OutboundMessage

PAGE_UNITS = 24_000
"""Limit of one card's text, in bytes of JSON within JSON; a card may have 30 KB."""
TABLES = 5
"""Most tables in one card; the platform publishes no number and was seen to refuse more."""
_STATUS_CHARACTERS = 240
_BUTTONS_ONLY = "👇"
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_HTML = re.compile(r"[<>|]|&(?=[#A-Za-z])|:(?=\w+:)")

Keyboard: TypeAlias = tuple[tuple[tuple[str, str], ...], ...]
"""Rows of (label, data)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeishuPart(Part):
    """One message. text: Markdown of the platform, "" for a file. growing: more of it follows, so it streams.

    awaited: an answer will grow here, once its buttons are gone.
    """

    text: str = ""
    status: str = ""
    keyboard: Keyboard = ()
    growing: bool = False
    awaited: bool = False
    file: FeishuFile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FeishuFile:
    """A file on this machine."""

    path: Path
    name: str
    mime_type: str
    kind: AttachmentKind


def measure(text: str) -> int:
    """Bytes of the text inside JSON inside JSON, as it travels in a card."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return len(text)
    inner = json.dumps(text, ensure_ascii=False)[1:-1]
    return len(json.dumps(inner, ensure_ascii=False).encode()) - 2


def escape(text: str) -> str:
    """Shown literally: the platform wants entities where CommonMark has backslashes (page "Rich text component").

    With < an element such as a mention of all would begin, with a word between colons an emoji.
    """
    marked = escape_marks(_HTML.sub(lambda found: _entity(found[0]), text))
    return _ESCAPED.sub(lambda found: _entity(found[1]), marked)


def _entity(char: str) -> str:
    return f"&#{ord(char)};"


DIALECT = Dialect(
    measure=measure,
    escape=escape,
    escape_code=str,
    tables=TABLES,
    task_lists=False,
    literal=_entity,
)


def layout(message: OutboundMessage) -> tuple[FeishuPart, ...]:
    """The messages that show a reply: its text, then its files; () when there is nothing to see."""
    open_end = not message.final
    texts = list(pages(message.text, DIALECT, PAGE_UNITS, growing=open_end))
    status = _status(message.status) if open_end or not texts else ""
    if not texts and message.buttons and not status:
        texts = [_BUTTONS_ONLY]
    elif not texts and status:
        texts = [""]
    keyboard = _keyboard(message.buttons)
    last = len(texts) - 1
    parts = [
        FeishuPart(
            index,
            text=text,
            status=status if index == last else "",
            keyboard=keyboard if index == last else (),
            growing=open_end and index == last and not keyboard,
            awaited=open_end and index == last and bool(keyboard),
        )
        for index, text in enumerate(texts)
    ]
    return (*parts, *(FeishuPart(len(parts) + index, file=_file(file)) for index, file in enumerate(message.files)))


def tables_as_code(text: str) -> str:
    """The page with its tables in code blocks, for when the platform wants fewer than it used to take."""
    lines: list[str] = []
    fenced = inside = False
    for line in text.split("\n"):
        if line.lstrip().startswith("```") and not inside:
            fenced = not fenced
        row = not fenced and line.lstrip().startswith("|")
        if row != inside:
            lines.append("```")
            inside = row
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)


def without_tables(part: FeishuPart) -> FeishuPart:
    return replace(part, text=tables_as_code(part.text))


def _status(status: str) -> str:
    """One plain line, cut to its room; nothing when it would not be seen."""
    line = one_line(status)
    if is_blank(line):
        return ""
    if len(line) > _STATUS_CHARACTERS:
        line = line[: safe_cut(line, _STATUS_CHARACTERS - 1)] + "…"
    return escape(line)


def _keyboard(buttons: tuple[tuple[Button, ...], ...]) -> Keyboard:
    return tuple(tuple((one_line(button.label), button.data) for button in row) for row in buttons)


def _file(file: OutboundFile) -> FeishuFile:
    return FeishuFile(path=file.path, name=file.name, mime_type=file.mime_type, kind=file.kind)
