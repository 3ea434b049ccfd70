"""Converts the Markdown tree into styled lines; `outbound` fills messages with them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from channels.telegram.lines import (
    BEFORE_BLOCK,
    BEFORE_HEADING,
    BEFORE_LINE,
    NOWHERE,
    EntityType,
    Line,
    Run,
    Style,
    Styles,
    make_lines,
)
from channels.text.blocks import (
    Bold,
    Code,
    CodeBlock,
    Heading,
    Inline,
    Italic,
    LineBreak,
    Link,
    ListBlock,
    Paragraph,
    Quote,
    Rule,
    Spoiler,
    Strike,
    Table,
    Text,
    plain,
)
from channels.text.tables import Grid, fit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from channels.text.blocks import Block, Inlines, ListItem
    from channels.text.parse import Segment

PHONE_COLUMNS = 42
"""Columns of a monospaced block that a phone shows without wrapping."""
_BULLETS = "•◦▪"
_INDENT = "   "
_DEEPEST_INDENT = 4
_QUOTE_MARK = "│ "
_RULE = "─" * 12
_MARKS: dict[type[Inline], EntityType] = {
    Bold: "bold",
    Italic: "italic",
    Strike: "strikethrough",
    Spoiler: "spoiler",
}


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of a block. indent: before each of its lines. depth and bullets: how many lists, and bulleted ones,
    it is in. quote: the entity it belongs to.
    """

    indent: str = ""
    depth: int = 0
    bullets: int = 0
    quote: Style | None = None

    @property
    def nested(self) -> bool:
        return self.depth > 0 or self.quote is not None

    @property
    def styles(self) -> Styles:
        return (self.quote,) if self.quote else ()


@dataclass(frozen=True, slots=True)
class Rendered:
    """A rendered segment. wide_tables: the Markdown of the tables that did not fit on a phone."""

    lines: tuple[Line, ...]
    wide_tables: tuple[str, ...]


@lru_cache(maxsize=128)
def render(segment: Segment) -> Rendered:
    """The lines of one segment of a reply; they do not depend on the other segments."""
    renderer = _Renderer()
    renderer.blocks(segment.blocks, _Place())
    return Rendered(tuple(renderer.lines), tuple(renderer.wide_tables))


class _Renderer:
    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.wide_tables: list[str] = []
        # Prefix of the next line, instead of its place's indent.
        self._bullet: str | None = None
        self._newlines = 0
        self._border = NOWHERE
        self._after_heading = False

    def blocks(self, blocks: Sequence[Block], place: _Place = _Place()) -> None:  # frozen
        for block in blocks:
            if self._bullet is None:
                self._space(block)
            self._block(block, place)

    def _space(self, block: Block) -> None:
        """Decide how the block is separated from what is above it."""
        if isinstance(block, Heading):
            self._want(2, BEFORE_HEADING)
        elif self._after_heading:
            self._want(1, NOWHERE)
        elif block.blank_before or isinstance(block, Rule):
            self._want(2, BEFORE_BLOCK)
        else:
            self._want(1, BEFORE_LINE)
        self._after_heading = isinstance(block, Heading)

    def _want(self, newlines: int, border: int) -> None:
        self._newlines = max(self._newlines, newlines)
        self._border = max(self._border, border)

    def _block(self, block: Block, place: _Place) -> None:
        match block:
            case Heading(level, inlines):
                bold = (Style("bold"),) if level < 4 else (Style("bold"), Style("italic"))
                self._leaf(inlines, place, bold)
            case Paragraph(inlines):
                self._leaf(inlines, place)
            case CodeBlock(language, text):
                self._code(text, Style("pre", language=language or None))
            case ListBlock():
                self._list(block, place)
            case Quote(blocks):
                self._quote(blocks, place)
            case Table():
                self._table(block, place)
            case Rule():
                self._emit([(_RULE, ())], place)

    def _list(self, block: ListBlock, place: _Place) -> None:
        for number, item in enumerate(block.items, block.start or 0):
            if number != (block.start or 0):
                self._want(2, BEFORE_BLOCK) if item.blank_before else self._want(1, BEFORE_LINE)
            if block.start is None:
                bullet = "" if item.checked is not None else _BULLETS[place.bullets % len(_BULLETS)] + " "
            else:
                bullet = f"{number}. "
            self._item(item, bullet, place if block.start is not None else replace(place, bullets=place.bullets + 1))

    def _item(self, item: ListItem, bullet: str, place: _Place) -> None:
        if item.checked is not None:
            bullet += "☑ " if item.checked else "☐ "
        # A list that begins an item of another list: both bullets are on the same line.
        self._bullet = (place.indent if self._bullet is None else self._bullet) + bullet
        deeper = place.indent + (_INDENT if place.depth < _DEEPEST_INDENT else "")
        self.blocks(item.blocks, replace(place, indent=deeper, depth=place.depth + 1))
        self._flush_bullet(place)

    def _quote(self, blocks: Sequence[Block], place: _Place) -> None:
        """A top-level quote gets the entity; entities cannot nest, so a nested quote gets marks."""
        if not place.nested:
            self.blocks(blocks, _Place(quote=Style("blockquote")))
            return
        if self._bullet is not None:
            self._bullet += _QUOTE_MARK
        mark = _QUOTE_MARK if place.indent.count(_QUOTE_MARK) < _DEEPEST_INDENT else ""
        self.blocks(blocks, replace(place, indent=place.indent + mark))

    def _code(self, text: str, style: Style) -> None:
        if not text.strip():
            return
        self._flush_bullet(_Place())
        for index, line in enumerate(text.rstrip().split("\n")):
            if index:
                self._want(1, BEFORE_LINE)
            self._put([(line, (style,))])

    def _table(self, table: Table, place: _Place) -> None:
        self._flush_bullet(place)
        grid = fit(table, PHONE_COLUMNS)
        if grid is None:
            self.wide_tables.append(table.source)
        head = self._head(grid, table)
        style = above = None
        for row in table.rows or (table.header,):
            lines = grid.row(row) if grid else None
            if grid is None or lines is None:
                self._record(table.header, row, place)
                style = None
                continue
            if style is None:
                style, above = Style("pre"), None
                self._rows(head, style)
            if table.rows:
                if above is not None and max(len(above), len(lines)) > 1:
                    self._rows((grid.rule(),), style)
                self._rows(lines, style, NOWHERE if above is None else BEFORE_LINE, head)
            above = lines

    def _head(self, grid: Grid | None, table: Table) -> tuple[str, ...]:
        lines = grid.row(table.header) if grid else None
        return (*lines, grid.rule()) if grid and lines else ()

    def _rows(self, lines: Sequence[str], style: Style, border: int = NOWHERE, head: Sequence[str] = ()) -> None:
        """Lines of one row, kept together; a message that begins with the row shows the table's head again."""
        repeat = tuple(Line(((line, (style,)),), 1, NOWHERE) for line in head)
        for index, line in enumerate(lines):
            self._want(1, NOWHERE if index else border)
            self._put([(line, (style,))], repeat if index == 0 else ())

    def _record(self, header: Sequence[Inlines], row: Sequence[Inlines], place: _Place) -> None:
        """A row as lines "header: value", for a table that does not fit in columns."""
        self._want(2, BEFORE_BLOCK)
        names = [" ".join(plain(name).split()) for name in header]
        if row is header:
            self._leaf((Text(" | ".join(names)),), place, (Style("bold"),))
            return
        for index, (name, cell) in enumerate(zip(names, row, strict=True)):
            if plain(cell).strip():
                self._want(1, NOWHERE if index else BEFORE_LINE)
                value: Inlines = (Bold(cell),) if index == 0 else cell
                self._leaf((Text(f"{name}: "), *value) if name else value, place)

    def _leaf(self, inlines: Inlines, place: _Place, styles: Styles = ()) -> None:
        lines: list[list[Run]] = [[]]
        for text, span in _runs(inlines, (*place.styles, *styles)):
            if text == "\n":
                lines.append([])
            else:
                lines[-1].append((text, span))
        while lines and not _has_ink(lines[-1]):
            lines.pop()
        for index, line in enumerate(lines):
            if index:
                self._want(1, BEFORE_LINE)
            self._emit(line, place)

    def _flush_bullet(self, place: _Place) -> None:
        """Give a bullet its own line if nothing followed that can share its line."""
        if self._bullet is not None:
            self._emit([], place)

    def _emit(self, runs: list[Run], place: _Place) -> None:
        prefix = place.indent if self._bullet is None else self._bullet
        self._bullet = None
        self._put([(prefix, place.styles), *runs] if prefix else runs)

    def _put(self, runs: list[Run], repeat: tuple[Line, ...] = ()) -> None:
        self.lines += make_lines(runs, self._newlines, self._border, repeat)
        self._newlines, self._border = 0, NOWHERE


def _has_ink(runs: Sequence[Run]) -> bool:
    return any(text.strip() for text, _ in runs)


def _runs(inlines: Inlines, styles: Styles) -> Iterator[Run]:
    """Text with its spans, outermost first; "\\n" alone for a line break."""
    for node in inlines:
        match node:
            case Text(text):
                yield text, styles
            case LineBreak():
                yield "\n", styles
            case Code(text):
                yield text, _as_code(styles)
            case Link(url, children):
                yield from _link(url, children, styles)
            case Bold(children) | Italic(children) | Strike(children) | Spoiler(children):
                mark = _MARKS[type(node)]
                known = any(style.type == mark for style in styles)
                yield from _runs(children, styles if known else (*styles, Style(mark)))


def _as_code(styles: Styles) -> Styles:
    """The styles of code: code can be combined only with a quote; within a link the link wins."""
    if any(style.type == "text_link" for style in styles):
        return styles
    return (*(style for style in styles if style.type == "blockquote"), Style("code"))


def _link(url: str, children: Inlines, styles: Styles) -> Iterator[Run]:
    """Web links become entities. Clients detect addresses and numbers themselves, but accept no entity for them."""
    scheme, _, address = url.partition(":")
    if scheme.lower() in ("http", "https"):
        yield from _runs(children, (*styles, Style("text_link", url=url)))
        return
    yield from _runs(children, styles)
    if address not in plain(children):
        yield f" ({address})", styles
