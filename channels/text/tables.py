"""Writes a table as Markdown's own, or set in columns in a code block. Called by `outline`."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from channels.text.blocks import plain
from channels.text.grid import fit
from channels.text.marks import Run, runs_of, write_runs
from channels.text.pieces import BEFORE_BLOCK, BEFORE_LINE, NOWHERE, Leaf, code_lines, cut_runs, text_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from channels.text.blocks import Inlines, Table
    from channels.text.dialect import Dialect
    from channels.text.pieces import Budget, Line

_RULES = {"left": "---", "center": ":-:", "right": "--:"}
_LEAST_CELL = 24
_BREAKS = re.compile(r"(?<!\s)\s*\n\s*")


def as_rows(table: Table, start: Line, dialect: Dialect, budget: Budget) -> tuple[Line, ...] | None:
    """The table in Markdown; None when its columns have no room, or are too many.

    start: a line that stands where its first does. A row with too long a text goes on in further rows.
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
    """The cell's text, in one line."""
    runs = runs_of(cell, dialect, budget.address // 2)
    return [run.of(_BREAKS.sub(" ", run.text)) for run in runs]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.strip().replace("|", "\\|") for cell in cells) + " |"


def _rule(table: Table) -> str:
    return "| " + " | ".join(_RULES[align] for align in table.align) + " |"


def as_code(table: Table, start: Line, dialect: Dialect, budget: Budget) -> tuple[Line, ...]:
    """The table in aligned columns; row by row as text where the columns are too narrow or would hide a link."""
    grid = fit(table, dialect.columns)
    names = grid.row(table.header) if grid else None
    head = (*names, grid.rule()) if grid and names else ()
    shown = tuple(map(dialect.escape_code, head))
    # A head that takes much of a page is shown once only.
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
    """Where the next row stands: at `start`, or below the lines that there are already."""
    if not lines:
        return replace(start, leaf=leaf)
    if leaf and lines[-1].leaf is leaf:
        return replace(start, newlines=1, border=BEFORE_LINE, fresh=0, leaf=leaf)
    return replace(start, newlines=2, border=BEFORE_BLOCK, fresh=0, leaf=leaf)


def _columns(texts: Sequence[str], start: Line, dialect: Dialect, budget: Budget) -> list[Line]:
    """Lines of one row, kept together."""
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
