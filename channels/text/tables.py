"""Renders a table as a Markdown table, or in columns of a monospaced font where that fits a narrow screen.

The layout is decided by the first rows, so that the table does not jump while later rows arrive.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from channels.text.blocks import has_link, plain
from channels.text.marks import Run, runs_of, write_runs
from channels.text.pieces import BEFORE_BLOCK, BEFORE_LINE, NOWHERE, Leaf, code_lines, cut_runs, text_lines
from channels.text.split import clusters, display_width, utf16_length

if TYPE_CHECKING:
    from collections.abc import Sequence

    from channels.text.blocks import Align, Inlines, Table
    from channels.text.marks import Dialect
    from channels.text.pieces import Budget, Line


_RULES = {"left": "---", "center": ":-:", "right": "--:"}
_LEAST_CELL = 24
_COLUMNS = 60
"""Display columns of a table rendered as a code block."""
_BREAKS = re.compile(r"(?<!\s)\s*\n\s*")

_BETWEEN = " | "
_NARROWEST = 8
_LONGEST_WORD = 12
_HIGHEST_ROW = 4
# The rows that decide the layout are those that fill about two thirds of a message.
_SAMPLE_COST = 2400
_ROW_COST = 60
_SPAN_COST = 80
# Put after right-to-left text: the rest continues from left to right, so that the columns keep their order.
_LEFT_TO_RIGHT = "\u200e"
_WORDS = re.compile(r"\S+\s*")


def as_rows(table: Table, start: Line, dialect: Dialect, budget: Budget) -> tuple[Line, ...] | None:
    """The table in Markdown; None if its columns do not fit or are too many.

    start: a line in the position of the table's first line. A row whose text is too long continues in further rows.
    """
    columns = len(table.header)
    if dialect.table_columns is not None and columns > dialect.table_columns:
        return None
    head = (_row([write_runs(_cell(cell, dialect, budget), dialect) for cell in table.header]), _rule(table))
    room = (budget.piece - dialect.measure(_row([""] * columns))) // columns
    if dialect.measure("\n".join(head)) > budget.head or room < min(_LEAST_CELL, budget.piece // 4):
        return None
    if not table.rows:
        return (replace(start, text=head[1], leaf=Leaf("table", head=head[:1])),)
    leaf = Leaf("table", head=head)
    lines: list[Line] = []
    for row in table.rows:
        for index, text in enumerate(_rows(row, room, dialect, budget)):
            line = replace(start, text=text, leaf=leaf)
            lines.append(
                replace(line, newlines=1, border=NOWHERE if index else BEFORE_LINE, fresh=0) if lines else line
            )
    return tuple(lines)


def _rows(row: Sequence[Inlines], room: int, dialect: Dialect, budget: Budget) -> list[str]:
    cells = [_cell(cell, dialect, budget) for cell in row]
    text = _row([write_runs(cell, dialect) for cell in cells])
    if dialect.measure(text) <= budget.piece:
        return [text]
    pieces = [[write_runs(piece, dialect) for piece in cut_runs(cell, dialect, room)] for cell in cells]
    return [_row(texts) for texts in zip_longest(*pieces, fillvalue="")]


def _cell(cell: Inlines, dialect: Dialect, budget: Budget) -> list[Run]:
    """The cell's text on one line."""
    runs = runs_of(cell, dialect, budget.address // 2)
    return [run.of(_BREAKS.sub(" ", run.text)) for run in runs]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.strip().replace("|", "\\|") for cell in cells) + " |"


def _rule(table: Table) -> str:
    return "| " + " | ".join(_RULES[align] for align in table.align) + " |"


def as_code(table: Table, start: Line, dialect: Dialect, budget: Budget) -> tuple[Line, ...]:
    """The table in aligned columns; rows as text where the columns are too narrow or would hide a link."""
    grid = fit(table, _COLUMNS)
    names = grid.row(table.header) if grid else None
    head = (*names, grid.rule()) if grid and names else ()
    shown = tuple(map(dialect.escape_code, head))
    # A head that takes up much of a page is shown only once.
    repeated = dialect.measure("\n".join(shown)) <= budget.head and bool(table.rows)
    lines: list[Line] = []
    leaf: Leaf | None = None
    above: tuple[str, ...] = ()
    for row in table.rows or (table.header,):
        cells = grid.row(row) if grid and head else None
        if grid is None or cells is None:
            lines += _record(table, row, _below(start, lines), dialect, budget)
            leaf = None
            continue
        if leaf is None:
            leaf = Leaf("code", head=shown if repeated else ())
            texts = (*(() if repeated else head), *(cells if table.rows else ()))
        else:
            texts = (grid.rule(), *cells) if max(len(above), len(cells)) > 1 else cells
        lines += _columns(texts, _below(start, lines, leaf), dialect, budget)
        above = cells
    return tuple(lines)


def _below(start: Line, lines: Sequence[Line], leaf: Leaf | None = None) -> Line:
    """The position of the next row: at `start`, or below the existing lines."""
    if not lines:
        return replace(start, leaf=leaf)
    if leaf and lines[-1].leaf is leaf:
        return replace(start, newlines=1, border=BEFORE_LINE, fresh=0, leaf=leaf)
    return replace(start, newlines=2, border=BEFORE_BLOCK, fresh=0, leaf=leaf)


def _columns(texts: Sequence[str], start: Line, dialect: Dialect, budget: Budget) -> list[Line]:
    """The lines of one row, kept together."""
    lines: list[Line] = []
    for text in texts:
        line = replace(start, text=text)
        lines += code_lines(replace(line, newlines=1, border=NOWHERE, fresh=0) if lines else line, dialect, budget)
    return lines


def _record(table: Table, row: Sequence[Inlines], start: Line, dialect: Dialect, budget: Budget) -> list[Line]:
    """A row as lines "header: value"."""
    names = [" ".join(plain(name).split()) for name in table.header]
    if row is table.header:
        title = Run(" | ".join(names), frozenset({"bold"}))
        return text_lines(replace(start, runs=(title,)), dialect, budget)
    lines: list[Line] = []
    for name, cell in zip(names, row, strict=True):
        runs = _cell(cell, dialect, budget)
        if not any(run.text.strip() for run in runs):
            continue
        line = replace(start, newlines=1, border=NOWHERE, fresh=0) if lines else start
        if not lines:
            runs = [replace(run, marks=run.marks | {"bold"}) for run in runs]
        line = replace(line, runs=(Run(f"{name}: "), *runs) if name else tuple(runs))
        lines += text_lines(line, dialect, budget)
    return lines


@dataclass(frozen=True, slots=True)
class Grid:
    """A table's columns. widths: in display columns."""

    widths: tuple[int, ...]
    align: tuple[Align, ...]

    def row(self, cells: Sequence[Inlines]) -> tuple[str, ...] | None:
        """The row's lines; None if it is too high or contains a link, which a monospaced block cannot show."""
        if any(has_link(cell) for cell in cells):
            return None
        wrapped = [_wrap(plain(cell), width) for cell, width in zip(cells, self.widths, strict=True)]
        height = max(len(lines) for lines in wrapped)
        if height > _HIGHEST_ROW:
            return None
        return tuple(
            self._line([lines[index] if index < len(lines) else "" for lines in wrapped]) for index in range(height)
        )

    def rule(self) -> str:
        return "-+-".join("-" * width for width in self.widths)

    def _line(self, cells: Sequence[str]) -> str:
        padded = [_pad(cell, width, align) for cell, width, align in zip(cells, self.widths, self.align, strict=True)]
        line = _BETWEEN.join(padded).rstrip()
        return _LEFT_TO_RIGHT + line if _LEFT_TO_RIGHT in line else line


def fit(table: Table, columns: int) -> Grid | None:
    """The table's grid within `columns` display columns; None if it does not fit or contains links."""
    sample = [table.header, *_sample(table)]
    if any(has_link(cell) for row in sample for cell in row):
        return None
    texts = [[plain(cell) for cell in row] for row in sample]
    natural = [max(_widest_line(row[index]) for row in texts) for index in range(len(table.header))]
    least = [max(_least_width(row[index]) for row in texts) for index in range(len(table.header))]
    widths = _shrink(natural, least, columns - len(_BETWEEN) * (len(natural) - 1))
    if widths is None:
        return None
    heights = [len(_wrap(cell, width)) for row in texts for cell, width in zip(row, widths, strict=True)]
    if max(heights) > _HIGHEST_ROW:
        return None
    return Grid(tuple(widths), table.align)


def _sample(table: Table) -> list[tuple[Inlines, ...]]:
    header = sum(utf16_length(plain(cell)) for cell in table.header)
    sample: list[tuple[Inlines, ...]] = []
    cost = 0
    for row in table.rows:
        cost += _ROW_COST + header + sum(2 * utf16_length(plain(cell)) + _SPAN_COST * (len(cell) // 2) for cell in row)
        if cost > _SAMPLE_COST and sample:
            break
        sample.append(row)
    return sample


def _widest_line(text: str) -> int:
    return max(1, *(display_width(line.strip()) for line in text.split("\n")))


def _least_width(text: str) -> int:
    longest = max((display_width(word) for word in text.split()), default=1)
    return min(_widest_line(text), max(_NARROWEST, min(longest, _LONGEST_WORD)))


def _shrink(natural: Sequence[int], least: Sequence[int], room: int) -> list[int] | None:
    """Column widths that fit into `room`, shrinking the widest column first; None if even the least do not fit."""
    if sum(least) > room:
        return None
    widths = [min(width, room) for width in natural]
    while sum(widths) > room:
        index = max(range(len(widths)), key=lambda column: (widths[column] > least[column], widths[column]))
        widths[index] -= 1
    return widths


def _wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, broken between words where possible."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for word in _WORDS.findall(paragraph):
            if display_width((line + word).rstrip()) <= width:
                line += word
                continue
            if line:
                lines.append(line.rstrip())
            *full, line = _hard_wrap(word, width)
            lines += full
        lines.append(line.rstrip())
    return lines


def _hard_wrap(word: str, width: int) -> list[str]:
    if display_width(word.rstrip()) <= width:
        return [word]
    pieces = [""]
    for cluster in clusters(word):
        if pieces[-1] and display_width(pieces[-1] + cluster) > width:
            pieces.append("")
        pieces[-1] += cluster
    return pieces


def _pad(text: str, width: int, align: Align) -> str:
    space = max(0, width - display_width(text))
    left = {"left": 0, "center": space // 2, "right": space}[align]
    if any(unicodedata.bidirectional(char) in ("R", "AL") for char in text):
        text += _LEFT_TO_RIGHT
    return " " * left + text + " " * (space - left)
