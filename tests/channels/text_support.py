"""Dialects to write Markdown in, and what a reader sees of it. Used by the tests of `channels.text.outline`."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from channels.text.blocks import CodeBlock, Heading, ListBlock, Paragraph, Quote, Rule, Table, plain
from channels.text.marks import Dialect, escape_marks
from channels.text.parse import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from channels.text.blocks import Block


def escape(text: str) -> str:
    # An entity instead of a backslash that would begin a formula: the parser knows formulas, platforms do not.
    return escape_marks(html.escape(text, quote=False)).replace("|", "\\|").replace("\\[", "&#91;")


def json_bytes(text: str) -> int:
    return len(json.dumps(json.dumps(text, ensure_ascii=False), ensure_ascii=False).encode())


CHARACTERS = Dialect(measure=len, escape=escape, escape_code=lambda text: text)
JSON_BYTES = replace(CHARACTERS, measure=json_bytes, tables=2, escape_code=html.escape)
UTF8_BYTES = replace(
    CHARACTERS,
    measure=lambda text: len(text.encode()),
    tables=0,
    task_lists=False,
)
DIALECTS = (CHARACTERS, JSON_BYTES, UTF8_BYTES)


def said(shown: Sequence[str]) -> str:
    """All letters of the pages that are no syntax, in order."""
    return "".join(map(letters, shown))


def letters(markdown: str) -> str:
    return "".join(re.findall(r"[a-wyzA-Z好的没有空格一长串文字😀👨👩👧]", everything(parse(markdown))))


def everything(blocks: Sequence[Block]) -> str:
    return "".join(map(words_of, blocks))


def words_of(block: Block) -> str:
    match block:
        case Heading(_, inlines) | Paragraph(inlines):
            return plain(inlines)
        case CodeBlock(_, text):
            return text
        case ListBlock(items):
            return "".join(everything(item.blocks) for item in items)
        case Quote(blocks):
            return everything(blocks)
        case Table(header, rows):
            return "".join(plain(cell) for row in (header, *rows) for cell in row)
        case Rule():
            return ""
