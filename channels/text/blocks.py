"""The tree that Markdown is parsed into: the content of a reply, independent of Markdown's and any platform's syntax.

`parse` builds it, each adapter's `outbound` renders it. Everything is frozen, so that parsed pieces can be cached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class LineBreak:
    """A line break within a paragraph: chats keep line breaks as written."""


@dataclass(frozen=True, slots=True)
class Code:
    text: str


@dataclass(frozen=True, slots=True)
class Bold:
    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Italic:
    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Strike:
    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Spoiler:
    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """url has an allowed scheme (http, https, mailto, tel); links with any other scheme are text. Images are links."""

    url: str
    children: tuple[Inline, ...]


Inline: TypeAlias = Text | LineBreak | Code | Bold | Italic | Strike | Spoiler | Link
Inlines: TypeAlias = tuple[Inline, ...]
Align: TypeAlias = Literal["left", "center", "right"]


@dataclass(frozen=True, slots=True)
class Heading:
    """level: 1 to 6. blank_before, here and below: a blank line separates the block from what precedes it."""

    level: int
    inlines: Inlines
    blank_before: bool = False


@dataclass(frozen=True, slots=True)
class Paragraph:
    inlines: Inlines
    blank_before: bool = False


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """language: a plain word such as "python", "" when none was named. text: without the last newline, no tabs."""

    language: str
    text: str
    blank_before: bool = False


@dataclass(frozen=True, slots=True)
class ListItem:
    """An item of a list. checked: None for an ordinary item, else the state of a task."""

    blocks: tuple[Block, ...]
    checked: bool | None = None
    blank_before: bool = False


@dataclass(frozen=True, slots=True)
class ListBlock:
    """A list. start: the first number of an ordered list, None for bullets."""

    items: tuple[ListItem, ...]
    start: int | None = None
    blank_before: bool = False


@dataclass(frozen=True, slots=True)
class Quote:
    blocks: tuple[Block, ...]
    blank_before: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Every row has as many cells as the header. source: the table's own Markdown, for a file."""

    header: tuple[Inlines, ...]
    rows: tuple[tuple[Inlines, ...], ...]
    align: tuple[Align, ...]
    source: str
    blank_before: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    blank_before: bool = False


Block: TypeAlias = Heading | Paragraph | CodeBlock | ListBlock | Quote | Table | Rule


def texts(blocks: Iterable[Block], addresses: list[str] | None = None) -> Iterator[str]:
    """The text that a person reads of each paragraph, heading, code block and table. addresses: links add their targets
    to it."""
    for block in blocks:
        match block:
            case Heading(_, inlines) | Paragraph(inlines):
                yield plain(inlines, addresses)
            case CodeBlock(_, text):
                yield text
            case Quote(inner):
                yield from texts(inner, addresses)
            case ListBlock(items):
                for item in items:
                    yield from texts(item.blocks, addresses)
            case Table(header, rows):
                yield "\n".join(" ".join(plain(cell, addresses) for cell in row) for row in (header, *rows))
            case Rule():
                pass


def plain(inlines: Inlines, addresses: list[str] | None = None) -> str:
    """The text that a person reads, without any formatting; line breaks as newlines. addresses: see `texts`."""
    pieces: list[str] = []
    for node in inlines:
        match node:
            case Text(text) | Code(text):
                pieces.append(text)
            case LineBreak():
                pieces.append("\n")
            case Bold(children) | Italic(children) | Strike(children) | Spoiler(children):
                pieces.append(plain(children, addresses))
            case Link(url, children):
                pieces.append(plain(children, addresses))
                if addresses is not None:
                    addresses.append(url)
    return "".join(pieces)


def has_link(inlines: Inlines) -> bool:
    """Whether the nodes contain a link at any level."""
    for node in inlines:
        match node:
            case Link():
                return True
            case Bold(children) | Italic(children) | Strike(children) | Spoiler(children):
                if has_link(children):
                    return True
            case _:
                pass
    return False
