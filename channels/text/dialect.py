"""What a platform's Markdown can do and how its text is measured and escaped. Filled in once by each adapter."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# A backslash where one would escape something, code, emphasis, strikethrough, links. Signs inside words and signs
# with space around are no marks.
_MARKS = re.compile(r"\\(?=[!-/:-@\[-`{-~\s]|$)|[`\[\]~]|\*(?!(?<=\s\*)\s)|_(?!(?<=\w_)\w)")


def backslashed(char: str) -> str:
    """The sign with a backslash before it, as CommonMark shows it literally."""
    return "\\" + char


def escape_marks(text: str) -> str:
    """The text with backslashes before what CommonMark would read as marks inside a line. For `Dialect.escape`.

    HTML's signs (& < >) and what else a platform reads are left to the adapter.
    """
    return _MARKS.sub(lambda match: backslashed(match.group()), text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One platform's Markdown. Made once and kept: what was written for it is remembered by it.

    measure: size of a page's text in the platform's own unit; measure(a + b) <= measure(a) + measure(b).
    escape: plain text -> text that shows literally and can mention nobody; it gets pieces of a line.
    escape_code: the same for what stands in code spans and blocks.
    headings: without, they are bold lines.
    tables: how many one page may hold; further ones become code blocks with aligned columns. None: any number.
    table_columns: a wider table becomes such a code block as well. table_rows, table_units: how many rows of a table
    (its header among them), and how much of their text, one page may hold; the table goes on on the next page.
    blocks: how many blocks (paragraphs, headings, lists, ...) one page may hold.
    link: (label as Markdown, address) -> text. None: [label](address).
    spoiler: what stands around a spoiler's text.
    nest: spaces per list level, 2 to 5.
    literal: one sign -> the same sign where it would begin a heading, a list or the like.
    boundary: put between a mark and a letter outside that touches it, for clients that want a word's end there.
    columns: display columns of a table that became a code block.
    """

    measure: Callable[[str], int]
    escape: Callable[[str], str]
    escape_code: Callable[[str], str]
    headings: bool = True
    tables: int | None = None
    table_columns: int | None = None
    table_rows: int | None = None
    table_units: int | None = None
    blocks: int | None = None
    link: Callable[[str, str], str] | None = None
    strike: bool = True
    task_lists: bool = True
    quotes: bool = True
    rules: bool = True
    spoiler: tuple[str, str] = ("", "")
    nest: int = 4
    literal: Callable[[str], str] = backslashed
    boundary: str = ""
    columns: int = 60
