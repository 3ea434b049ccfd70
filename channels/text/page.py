"""Fills pages with lines of Markdown and writes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from channels.text.marks import write_line
from channels.text.sanitize import is_blank

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from channels.text.marks import Dialect
    from channels.text.pieces import Line

_GOES_ON = "…"
_SEAM = 16
"""Units that two pieces of one line may need on top of their separate lengths: characters may have to be escaped."""


@dataclass(frozen=True, slots=True, eq=False)
class TableChoice:
    """A table in both of its forms; which one is used depends on how many tables the page has."""

    native: tuple[Line, ...]
    code: tuple[Line, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """pages: the finished ones. lines: of the page being filled, each with its share. used: its approximate units."""

    pages: tuple[str, ...] = ()
    lines: tuple[tuple[Line, int], ...] = ()
    used: int = 0


def pack(above: Packed, lines: Iterable[Line | TableChoice], dialect: Dialect, limit: int) -> Packed:
    """The lines added to what is already packed."""
    packer = _Packer(above, dialect, limit)
    for line in lines:
        packer.take(line)
    return Packed(tuple(packer.pages), tuple(packer.lines), packer.used)


def finished(packed: Packed, dialect: Dialect, limit: int) -> tuple[str, ...]:
    """All pages, including the unfinished last one."""
    return (*packed.pages, *_page(packed.lines, dialect, limit))


def _page(lines: Sequence[tuple[Line, int]], dialect: Dialect, limit: int) -> Iterator[str]:
    """The page, unless nothing on it is visible; several pages if the marks of its pieces took too much space."""
    if all(is_blank(line.text) for line, _ in lines):
        return
    text = write([line for line, _ in lines], dialect)
    if len(lines) == 1 or dialect.measure(text) <= limit:
        yield text
        return
    half = len(lines) // 2
    yield from _page(lines[:half], dialect, limit)
    yield from _page(lines[half:], dialect, limit)


class _Packer:
    def __init__(self, above: Packed, dialect: Dialect, limit: int) -> None:
        self.pages = list(above.pages)
        self.lines = list(above.lines)
        self.used = above.used
        self._dialect = dialect
        self._limit = limit
        self._tally = _Tally(dialect)
        for line, _ in self.lines:
            self._tally.add(line)

    def take(self, line: Line | TableChoice) -> None:
        if isinstance(line, TableChoice):
            tables = {id(above.leaf) for above, _ in self.lines if above.leaf and above.leaf.kind == "table"}
            full = self._dialect.tables is not None and len(tables) >= self._dialect.tables
            if full and line.code and not self._fits(line.code[0]):
                self._turn(self.lines)
                full = False
            for row in line.code if full else line.native:
                self._take(row)
        else:
            self._take(line)

    def _take(self, line: Line) -> None:
        if self._add(line):
            return
        cut = self._best_cut(line)
        carried = [moved for moved, _ in self.lines[cut:]]
        self._turn(self.lines[:cut])
        for moved in (*carried, line):
            if not self._add(moved):
                self._turn(self.lines)
                self._add(moved)

    def _turn(self, lines: Sequence[tuple[Line, int]]) -> None:
        self.pages += _page(lines, self._dialect, self._limit)
        self.lines, self.used = [], 0
        self._tally = _Tally(self._dialect)

    def _add(self, line: Line) -> bool:
        """Put the line on the page; False if it does not fit."""
        share, used = self._cost(line)
        if self.lines and (used > self._limit or self._tally.is_full_for(line)):
            return False
        self.used = used
        self._tally.add(line)
        self.lines.append((line, share))
        return True

    def _fits(self, line: Line) -> bool:
        return not self.lines or self._cost(line)[1] <= self._limit

    def _cost(self, line: Line) -> tuple[int, int]:
        """The line's share, and the approximate size of the page with it; a size above the limit is never an estimate.

        The page is rendered for measuring only when it is nearly full. An empty page accepts any line.
        """
        share = self._share(line) if self.lines else 0
        added = share + (0 if line.newlines or not self.lines else _seam(self.lines[-1][0], line, self._dialect))
        if self.lines and self.used + added <= self._limit:
            return share, self.used + added
        used = self._dialect.measure(write([*(above for above, _ in self.lines), line], self._dialect))
        return share or used, used

    def _share(self, line: Line) -> int:
        """The most that the line can add to the page."""
        measure = self._dialect.measure
        above, leaf = self.lines[-1][0], line.leaf
        share = measure(_break(line) + line.text)
        if leaf is None:
            return share
        if leaf is not above.leaf:
            share += measure(_leaf_opening(line, 3)) + measure(_leaf_closing(line, 3))
        if leaf.kind == "code" and line.fence > 3:
            share += 2 * measure("`" * (line.fence - 3))
        return share

    def _best_cut(self, following: Line) -> int:
        """The best place to end the page: the index of the first line that moves to the next page."""
        best, border = len(self.lines), following.border
        carried = 0
        for index in range(len(self.lines) - 1, 0, -1):
            line, share = self.lines[index]
            carried += share
            if carried > self._limit // 5:
                break
            if line.border > border:
                best, border = index, line.border
        return best


def _seam(above: Line, piece: Line, dialect: Dialect) -> int:
    """The units that two pieces of one line may need on top of their separate sizes, where outer spaces are dropped."""
    sources = ["".join(run.text for run in line.runs) for line in (above, piece)]
    return _SEAM + sum(dialect.measure(source) - dialect.measure(source.strip()) for source in sources)


class _Tally:
    """Counts what a dialect limits per page in addition to its length."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._last: Line | None = None
        self._blocks = self._rows = self._units = 0

    def add(self, line: Line) -> None:
        self._blocks, self._rows, self._units = self._with(line)
        self._last = line

    def is_full_for(self, line: Line) -> bool:
        """Whether the page would hold too much with this line."""
        limits = (self._dialect.blocks, self._dialect.table_rows, self._dialect.table_units)
        return any(most is not None and count > most for count, most in zip(self._with(line), limits, strict=True))

    def _with(self, line: Line) -> tuple[int, int, int]:
        last, leaf = self._last, line.leaf
        blocks = self._blocks + (last is None or _is_new_block(last, line))
        if leaf is None or leaf.kind != "table":
            return blocks, self._rows, self._units
        head = () if last is not None and last.leaf is leaf else leaf.head
        # A rule between header and rows is no row; it counts, so that there is room to spare.
        texts = (*head, line.text)
        return blocks, self._rows + len(texts), self._units + sum(map(self._dialect.measure, texts))


def _is_new_block(above: Line, line: Line) -> bool:
    """Whether a top-level block of the page begins with the line."""
    if line.newlines == 0:
        return False
    if above.frames and line.frames:
        outer, inner = above.frames[0], line.frames[0]
        # Items of one list have separate frames, but the same marker.
        return outer is not inner and (not outer.again or outer.again.strip()[-1:] != inner.again.strip()[-1:])
    if above.frames or line.frames or above.leaf is not line.leaf:
        return True
    return line.leaf is None and bool(line.lead or above.lead or line.newlines > 1)


def write(lines: Sequence[Line], dialect: Dialect) -> str:
    """A page of these lines: blocks that were open before it are reopened, blocks open at its end are closed."""
    whole = list(_whole(lines, dialect))
    fences = _fences(whole)
    text: list[str] = []
    above: Line | None = None
    for line in whole:
        if above is None:
            text.append(_opening(line))
        else:
            if above.leaf and above.leaf is not line.leaf:
                text.append(_leaf_closing(above, fences.get(id(above.leaf), 0)))
            text.append(_break(line))
        if line.leaf and (above is None or above.leaf is not line.leaf):
            text.append(_leaf_opening(line, fences.get(id(line.leaf), 0)))
        text.append(line.text)
        above = line
    if above and above.leaf:
        text.append(_leaf_closing(above, fences.get(id(above.leaf), 0)))
    return "".join(text)


def _whole(lines: Sequence[Line], dialect: Dialect) -> Iterator[Line]:
    """The lines with their pieces joined."""
    start = 0
    for end in range(1, len(lines) + 1):
        if end < len(lines) and lines[end].newlines == 0:
            continue
        line = lines[start]
        if end - start > 1 and line.leaf:
            line = replace(line, text="".join(piece.text for piece in lines[start:end]))
        elif end - start > 1:
            line = replace(line, text=write_line([run for piece in lines[start:end] for run in piece.runs], dialect))
        yield line
        start = end


def _fences(lines: Sequence[Line]) -> dict[int, int]:
    """The length of the fence of each code block, by its leaf's id."""
    fences: dict[int, int] = {}
    for line in lines:
        if line.leaf and line.leaf.kind == "code":
            fences[id(line.leaf)] = max(fences.get(id(line.leaf), 3), line.fence)
    return fences


def _rest(line: Line) -> str:
    return "".join(frame.rest for frame in line.frames)


def _break(line: Line) -> str:
    """The separator between the line and the one above, and the line's prefix."""
    if line.newlines == 0:
        return ""
    outer = len(line.frames) - line.fresh
    shared = "".join(frame.rest for frame in line.frames[:outer])
    begin = shared + "".join(frame.first for frame in line.frames[outer:]) + line.lead
    if not line.text and not line.leaf:
        begin = begin.rstrip()
    blank = "\n" + shared.rstrip() if line.newlines > 1 else ""
    return f"{blank}\n{begin}"


def _opening(line: Line) -> str:
    """The beginning of a page whose first line this is: the frames that it continues, then those that begin."""
    outer = len(line.frames) - line.fresh
    text = prefix = ""
    for index, frame in enumerate(line.frames[:outer]):
        prefix += frame.rest
        if not frame.again:
            text += frame.rest
            continue
        text += frame.again + _GOES_ON
        if index == len(line.frames) - 1 and not line.leaf and not line.lead:
            return text + " "
        below = line.frames[index + 1] if index + 1 < len(line.frames) else None
        # Only bullets may follow text without an empty line in every client.
        blank = "" if below and below.first[:1] in "-*" else "\n" + prefix.rstrip()
        text += f"{blank}\n{prefix}"
    text += "".join(frame.first for frame in line.frames[outer:]) + line.lead
    return text if line.text or line.leaf else text.rstrip()


def _leaf_opening(line: Line, fence: int) -> str:
    leaf = line.leaf
    if leaf is None:
        return ""
    rest = _rest(line)
    head = [*(["`" * fence + leaf.info] if leaf.kind == "code" else ()), *leaf.head]
    return "".join(f"{text}\n{rest}" for text in head)


def _leaf_closing(line: Line, fence: int) -> str:
    return f"\n{_rest(line)}{'`' * fence}" if line.leaf and line.leaf.kind == "code" else ""
