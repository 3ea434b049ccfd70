"""Lays a reply out as Slack messages: Markdown blocks, with buttons and a status line below. Pure.

`channel` calls `layout` for every edit of a growing reply.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from channels.base import Part
from channels.capabilities import TextUnit
from channels.text import is_blank, one_line, safe_cut, sanitize, split_text
from channels.text.dialect import Dialect, escape_marks
from channels.text.markdown import pages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from channels.message import Button, OutboundFile, OutboundMessage

PAGE_CHARACTERS = 11_500
"""Of one Markdown block; Slack takes 12000 in all blocks of a message together (Block Kit reference, "Markdown")."""
PAGE_BLOCKS = 45
"""Slack makes blocks of a Markdown block's paragraphs, headings, lists and so on, and takes 50 in a message: the rest
is for buttons and the status line."""
TABLES, TABLE_ROWS, TABLE_COLUMNS, TABLE_CHARACTERS = 1, 100, 20, 10_000
"""In one message (Block Kit reference, "Table"); the characters are those of all cells together."""
PLAIN_CHARACTERS = 2900
"""Of one message without formatting, escaped: a section below which buttons stand takes 3000."""
BUTTONS_BELOW = 100
"""Below a text, which leaves room for four full rows; more stand in a message of their own."""
_STATUS_CHARACTERS = 240
_BACKSLASHED = re.compile(r"\\([!-/:-@\[-`{-~])")
_WORD_JOINER = "\u2060"
# What could call people: <!channel>, <@U1>, <#C1>, <!subteam^S1>, wherever a line is cut; and the words themselves.
_CALL = re.compile(r"<(?=[!@#]|$)|@(?=(?:here|channel|everyone|group)\b)", re.IGNORECASE)
_CALL_IN_CODE = re.compile(r"<(?=!(?:here|channel|everyone|subteam|date)|@[UWB][A-Z0-9]|#[CGD][A-Z0-9])", re.IGNORECASE)

Keyboard: TypeAlias = tuple[tuple[tuple[str, str], ...], ...]
"""Rows of (label, data)."""


def disarmed(text: str) -> str:
    """The text with a word joiner in everything that would call people; it looks the same."""
    return _CALL.sub(lambda found: found.group() + _WORD_JOINER, text)


def _disarmed_code(text: str) -> str:
    return _CALL_IN_CODE.sub(lambda found: found.group() + _WORD_JOINER, text)


DIALECT = Dialect(
    measure=len,
    escape=lambda text: disarmed(escape_marks(text)),
    escape_code=_disarmed_code,
    tables=TABLES,
    table_rows=TABLE_ROWS,
    table_columns=TABLE_COLUMNS,
    table_units=TABLE_CHARACTERS,
    blocks=PAGE_BLOCKS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackPart(Part):
    """One message: Markdown with what hangs below it, or one file and nothing else.

    plain: the text is no Markdown, and goes without blocks where no button needs one.
    """

    markdown: str = ""
    status: str = ""
    keyboard: Keyboard = ()
    file: OutboundFile | None = None
    plain: bool = False


def escaped(text: str) -> str:
    """Plain text in Slack's own mark-up, where it cannot call anybody ("Escaping text")."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def layout(message: OutboundMessage) -> tuple[SlackPart, ...]:
    """The messages that show a reply: its text, then its files; () when there is nothing to see.

    While the text grows, all but the last two stay as they are.
    """
    growing = not message.final
    plain = message.plain
    texts = _plain_pages(message.text) if plain else pages(message.text, DIALECT, PAGE_CHARACTERS, growing=growing)
    status = _status(message.status) if growing or not texts else ""
    if sum(map(len, message.buttons)) > BUTTONS_BELOW or (not texts and (status or message.buttons)):
        texts = (*texts, "")
    parts = [SlackPart(index, markdown=text, plain=plain) for index, text in enumerate(texts)]
    if parts:
        parts[-1] = replace(parts[-1], status=status, keyboard=_keyboard(message.buttons))
    files = enumerate(message.files, len(parts))
    return (*parts, *(SlackPart(index, file=file) for index, file in files))


def _plain_pages(markdown: str) -> tuple[str, ...]:
    """Escaped Markdown as the text that it shows, in pieces for one message each."""
    pieces = _fitting(_BACKSLASHED.sub(r"\1", sanitize(markdown)))
    return tuple(piece for piece in pieces if not is_blank(piece))


def _fitting(text: str) -> Iterator[str]:
    if len(escaped(text)) <= PLAIN_CHARACTERS:
        yield text.strip("\n")
        return
    # What consists of signs that are escaped gets longer: then in smaller pieces.
    for piece in split_text(text, min(PLAIN_CHARACTERS, len(text) // 2 + 1), TextUnit.CHARACTERS):
        yield from _fitting(piece)


def _status(status: str) -> str:
    """One line, cut to its room; nothing when it would not be seen."""
    line = one_line(status)
    if is_blank(line):
        return ""
    return line if len(line) <= _STATUS_CHARACTERS else line[: safe_cut(line, _STATUS_CHARACTERS - 1)] + "…"


def _keyboard(buttons: tuple[tuple[Button, ...], ...]) -> Keyboard:
    return tuple(tuple((one_line(button.label), button.data) for button in row) for row in buttons)
