"""Markdown as plain text for a pipe or a file: no marks, no escapes, code and tables as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.text.blocks import (
    Bold,
    CodeBlock,
    Heading,
    Italic,
    Link,
    ListBlock,
    Paragraph,
    Quote,
    Rule,
    Spoiler,
    Strike,
    Table,
    plain,
)
from channels.text.parse import parse
from channels.text.tables import fit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from channels.text.blocks import Block, Inline, Inlines

_TABLE_COLUMNS = 120
_RULE = "─" * 20


def as_text(markdown: str) -> str:
    """The text as a person reads it; a link's address follows its label."""
    return "\n".join(_lines(parse(markdown)))


def _lines(blocks: Iterable[Block]) -> Iterator[str]:
    for number, block in enumerate(blocks):
        if number and (block.blank_before or isinstance(block, Heading)):
            yield ""
        yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Heading(_, inlines) | Paragraph(inlines):
            yield from _read(inlines).split("\n")
        case CodeBlock(_, text):
            yield from text.split("\n")
        case ListBlock():
            yield from _list(block)
        case Quote(blocks):
            yield from (f"> {line}".rstrip() for line in _lines(blocks))
        case Table():
            yield from _table(block)
        case Rule():
            yield _RULE


def _list(block: ListBlock) -> Iterator[str]:
    for place, item in enumerate(block.items):
        if place and item.blank_before:
            yield ""
        sign = "-" if block.start is None else f"{block.start + place}."
        if item.checked is not None:
            sign += " [x]" if item.checked else " [ ]"
        lines = list(_lines(item.blocks)) or [""]
        yield f"{sign} {lines[0]}".rstrip()
        yield from (f"{' ' * (len(sign) + 1)}{line}".rstrip() for line in lines[1:])


def _table(table: Table) -> Iterator[str]:
    """The rows in columns if they fit, else cell by cell."""
    grid = fit(table, _TABLE_COLUMNS)
    rows = [grid.row(row) for row in (table.header, *table.rows)] if grid else []
    for place, cells in enumerate((table.header, *table.rows)):
        columns = rows[place] if grid else None
        yield from columns or (" | ".join(_cells(cells)).rstrip(),)
        if grid and place == 0:
            yield grid.rule()


def _cells(cells: Sequence[Inlines]) -> Iterator[str]:
    return (" ".join(_read(cell).split()) for cell in cells)


def _read(inlines: Inlines) -> str:
    return "".join(map(_piece, inlines))


def _piece(node: Inline) -> str:
    match node:
        case Bold(children) | Italic(children) | Strike(children) | Spoiler(children):
            return _read(children)
        case Link(url, children):
            words = _read(children)
            address = url.removeprefix("mailto:").removeprefix("tel:")
            return words if address in words else f"{words} ({address})"
        case _:
            return plain((node,))
