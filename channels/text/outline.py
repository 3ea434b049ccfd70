"""Renders a reply as pages of a platform's own Markdown: the tree as lines, which `page` fills pages with. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from channels.text.blocks import CodeBlock, Heading, ListBlock, Paragraph, Quote, Rule, Table
from channels.text.marks import Run, runs_of
from channels.text.page import Packed, TableChoice, finished, pack
from channels.text.parse import segments
from channels.text.pieces import (
    BEFORE_BLOCK,
    BEFORE_HEADING,
    BEFORE_LINE,
    NOWHERE,
    Budget,
    Frame,
    Leaf,
    Line,
    code_lines,
    text_lines,
)
from channels.text.sanitize import is_blank, sanitize
from channels.text.tables import as_code, as_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from channels.text.blocks import Block, Inlines, ListItem
    from channels.text.marks import Dialect
    from channels.text.parse import Segment

_QUOTE_MARK = "│ "
_BULLET = "• "
_LARGEST_NUMBER = 999_999_999
_DONE, _OPEN = "☑ ", "☐ "
_NEST = 4
"""Spaces of indentation per list level."""

_EMPTY = Packed()
LEAST_LIMIT = 60
"""The smallest page, in units."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of a block. mark: prefix of each line of text in a quote that has no room for its frame."""

    frames: tuple[Frame, ...] = ()
    mark: str = ""


def outline(blocks: Sequence[Block], dialect: Dialect, limit: int) -> list[Line | TableChoice]:
    """The lines of blocks that follow an empty line."""
    writer = _Outline(dialect, Budget.of(limit))
    writer.blocks(blocks, _Place())
    return writer.lines


def verbatim(text: str, dialect: Dialect, limit: int) -> list[Line | TableChoice]:
    """The lines of a text whose Markdown is not interpreted."""
    writer = _Outline(dialect, Budget.of(limit))
    for line in filter(str.strip, text.split("\n")):
        writer.text([Run(line)], _Place())
    return writer.lines


class _Outline:
    def __init__(self, dialect: Dialect, budget: Budget) -> None:
        self.lines: list[Line | TableChoice] = []
        self._dialect = dialect
        self._budget = budget
        self._newlines, self._border = 2, BEFORE_BLOCK
        # How many frames begin with the next line; the prefix of that line if there was no room for a frame.
        self._fresh = 0
        self._bullet = ""
        # Whether the next list uses other markers than usual, because another list is right above it.
        self._swapped = False

    def blocks(self, blocks: Sequence[Block], place: _Place) -> None:
        above: Block | None = None
        swapped = False
        for block in blocks:
            if above is not None:
                self._part(above, block)
            self._swapped = swapped = not swapped and _would_join(above, block)
            before = len(self.lines)
            self._block(block, place)
            # A block that produced no lines separates nothing.
            above = block if len(self.lines) > before else above

    def _part(self, above: Block, below: Block) -> None:
        """Separate two blocks by an empty line, unless they were written without one and are read the same without."""
        close = _may_touch(above, below) and not below.blank_before
        if isinstance(below, Heading):
            self._want(1 if close else 2, BEFORE_HEADING)
        elif isinstance(above, Heading):
            self._want(1 if close else 2, NOWHERE)
        else:
            self._want(1 if close else 2, BEFORE_LINE if close else BEFORE_BLOCK)

    def _want(self, newlines: int, border: int) -> None:
        self._newlines, self._border = newlines, border

    def _block(self, block: Block, place: _Place) -> None:
        match block:
            case Heading(level, inlines):
                self._heading(level, inlines, place)
            case Paragraph(inlines):
                self._leaf(inlines, place)
            case CodeBlock(language, text):
                self._code(text, language, place)
            case ListBlock():
                self._list(block, place)
            case Quote(blocks):
                self._quote(blocks, place)
            case Table():
                self._table(block, place)
            case Rule():
                self._emit([self._line("---", place)])

    def _heading(self, level: int, inlines: Inlines, place: _Place) -> None:
        runs = [run.of(run.text.replace("\n", " ")) for run in self._runs(inlines)]
        if any(run.text.strip() for run in runs):
            self.text(runs, place, "#" * level + " ")

    def _leaf(self, inlines: Inlines, place: _Place) -> None:
        lines: list[list[Run]] = [[]]
        for run in self._runs(inlines):
            if run.text == "\n":
                lines.append([])
            else:
                lines[-1].append(run)
        inked = [runs for runs in lines if any(run.text.strip() for run in runs)]
        for index, runs in enumerate(inked):
            if index:
                self._want(1, BEFORE_LINE)
            self.text(runs, place)

    def _runs(self, inlines: Inlines) -> Iterator[Run]:
        return runs_of(inlines, self._dialect, self._budget.address)

    def text(self, runs: list[Run], place: _Place, lead: str = "") -> None:
        mark, self._bullet = place.mark + self._bullet, ""
        line = replace(self._line("", place), runs=(Run(mark), *runs) if mark else tuple(runs), lead=lead)
        self._emit(text_lines(line, self._dialect, self._budget))

    def _line(self, text: str, place: _Place, leaf: Leaf | None = None) -> Line:
        return Line(text, self._newlines, self._border, place.frames, self._fresh, leaf=leaf)

    def _emit(self, lines: Sequence[Line]) -> None:
        if lines:
            self.lines += lines
            self._fresh = 0
            self._want(1, BEFORE_LINE)

    def _list(self, block: ListBlock, place: _Place) -> None:
        swapped = self._swapped
        above: ListItem | None = None
        for number, item in enumerate(block.items, block.start or 0):
            if above is not None:
                close = not item.blank_before and _ends_openly(above)
                self._want(1 if close else 2, BEFORE_LINE if close else BEFORE_BLOCK)
            if block.start is None:
                sign, bullet = "*" if swapped else "-", _BULLET if item.checked is None else ""
            else:
                sign = f"{min(number, _LARGEST_NUMBER)}{')' if swapped else '.'}"
                bullet = f"{number}. "
            self._item(item, sign, bullet, place)
            above = item

    def _item(self, item: ListItem, sign: str, bullet: str, place: _Place) -> None:
        """Add a list item. sign: its marker. bullet: its prefix where there is no room for another frame."""
        task = ""
        if item.checked is not None and not self._dialect.task_lists:
            task = _DONE if item.checked else _OPEN
        elif item.checked is not None:
            task = "[x] " if item.checked else "[ ] "
        rest = " " * max(_NEST, len(sign) + 1)
        # A code block or the like starts at the column of the following lines, or its indentation would be misread.
        begin = f"{sign} {task}" if _begins_with_text(item) else sign.ljust(len(rest))
        inner = self._within(Frame(begin, rest, f"{sign} "), place)
        if inner is None:
            self._bullet += bullet + {None: "", True: _DONE, False: _OPEN}[item.checked]
        else:
            self._fresh += 1
        self.blocks(item.blocks, inner or place)
        self._flush(inner or place)

    def _within(self, frame: Frame, place: _Place) -> _Place | None:
        """The place within one more frame; None if the frames would take up too much of a page."""
        again = "".join(f"{frame.again or frame.rest}…\n\n{frame.rest}" for frame in (*place.frames, frame))
        rest = "".join(frame.rest for frame in place.frames)
        depth = len(place.frames) + 1
        if self._dialect.measure(again) + depth * self._dialect.measure(rest) > self._budget.frames:
            return None
        return replace(place, frames=(*place.frames, frame))

    def _flush(self, place: _Place) -> None:
        """Give a bullet its own line if nothing followed that can share its line."""
        if self._bullet:
            self.text([Run("")], place)
        elif self._fresh and place.frames:
            self._emit([self._line("", place)])

    def _quote(self, blocks: Sequence[Block], place: _Place) -> None:
        inner = self._within(Frame("> ", "> "), place)
        if inner is None:
            self.blocks(blocks, replace(place, mark=_QUOTE_MARK))
        else:
            self._fresh += 1
            self.blocks(blocks, inner)
            self._flush(inner)

    def _code(self, text: str, language: str, place: _Place) -> None:
        if not text.strip():
            return
        if self._bullet:
            self._flush(place)
        info = language if self._dialect.measure(language) <= self._budget.head // 2 else ""
        leaf = Leaf("code", info)
        for line in text.rstrip().split("\n"):
            self._emit(code_lines(self._line(line, place, leaf), self._dialect, self._budget))

    def _table(self, table: Table, place: _Place) -> None:
        if self._bullet:
            self._flush(place)
        most = self._dialect.tables
        start = self._line("", place)
        code = () if most is None else as_code(table, start, self._dialect, self._budget)
        native = None if most == 0 else as_rows(table, start, self._dialect, self._budget)
        if native is None:
            self._emit(code or as_code(table, start, self._dialect, self._budget))
        elif most is None:
            self._emit(native)
        else:
            self.lines.append(TableChoice(native, code))
            self._fresh = 0


def _may_touch(above: Block, below: Block) -> bool:
    """Whether all Markdown parsers see two blocks even without an empty line between them."""
    if isinstance(above, Heading | CodeBlock):
        return isinstance(below, Heading | CodeBlock | Paragraph | ListBlock | Quote)
    if isinstance(above, Paragraph):
        if isinstance(below, ListBlock):
            return below.start in (None, 1) and _begins_with_text(below.items[0]) and bool(below.items[0].blocks)
        return isinstance(below, Heading | CodeBlock | Quote)
    return False


def _would_join(above: Block | None, below: Block) -> bool:
    """Whether two lists would be read as one if their items began with the same marker."""
    if not isinstance(above, ListBlock) or not isinstance(below, ListBlock):
        return False
    return (above.start is None) == (below.start is None)


def _ends_openly(item: ListItem) -> bool:
    """Whether the next item may follow without an empty line."""
    if not item.blocks:
        return True
    last = item.blocks[-1]
    if isinstance(last, ListBlock):
        return bool(last.items) and _ends_openly(last.items[-1])
    return isinstance(last, Paragraph | Heading | CodeBlock)


def _begins_with_text(item: ListItem) -> bool:
    return not item.blocks or isinstance(item.blocks[0], Paragraph)


def pages(text: str, dialect: Dialect, limit: int, *, growing: bool = False) -> tuple[str, ...]:
    """The Markdown `text` as pages of at most `limit` units each; () for a blank text.

    growing: more text will follow, so marks that are open at its end count as closed there. While a text grows, all
    pages but the last two stay unchanged, provided that a page holds what can still change (about 2500 characters).
    Raises ValueError for a limit below LEAST_LIMIT.
    """
    if limit < LEAST_LIMIT:
        raise ValueError(f"a page needs at least {LEAST_LIMIT} units")
    if is_blank(text):
        return ()
    *settled, last = segments(text, growing=growing)
    packed = _EMPTY
    for segment in settled:
        packed = _pack_settled(packed, segment, dialect, limit)
    packed = pack(packed, outline(last.blocks, dialect, limit), dialect, limit)
    # If there are only marks, such as a fence that was just opened, show them verbatim rather than nothing.
    return finished(packed, dialect, limit) or finished(
        pack(_EMPTY, verbatim(sanitize(text), dialect, limit), dialect, limit), dialect, limit
    )


@lru_cache(maxsize=256)
def _pack_settled(above: Packed, segment: Segment, dialect: Dialect, limit: int) -> Packed:
    """The pages up to a segment that can no longer change; cached, so that only the end of a reply is rendered."""
    return pack(above, outline(segment.blocks, dialect, limit), dialect, limit)
