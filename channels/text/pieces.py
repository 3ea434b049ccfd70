"""Lines of Markdown before they are packed into pages: their content and the blocks around them."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from channels.capabilities import TextUnit
from channels.text.marks import Run, longest_ticks, write_line
from channels.text.split import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from channels.text.marks import Dialect

BEFORE_HEADING, BEFORE_BLOCK, BEFORE_LINE, BEFORE_WORD, NOWHERE = 4, 3, 2, 1, 0
"""How suitable a page break before a line is, best first."""
_LONGEST_PIECE = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A quote or a list item around lines.

    first: prefix of its first line; rest: prefix of its further lines. again: beginning of a page that continues the
    item; "" for a quote.
    """

    first: str
    rest: str
    again: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A code block or a table. head: lines that are shown first on every page that contains a part of it."""

    kind: Literal["code", "table"]
    info: str = ""
    head: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """text: Markdown, without what the frames add. newlines: before it, 0 if it continues the line above.

    border: how suitable a page break before it is. fresh: how many of its frames, the inner ones, begin with it.
    lead: prefix of a heading's line. runs: of a line of text, to write it again when pieces are joined.
    """

    text: str
    newlines: int
    border: int
    frames: tuple[Frame, ...] = ()
    fresh: int = 0
    lead: str = ""
    runs: tuple[Run, ...] = ()
    leaf: Leaf | None = None

    @property
    def fence(self) -> int:
        """How many backticks a fence around it needs."""
        return max(3, longest_ticks(self.text) + 1)


@dataclass(frozen=True, slots=True)
class Budget:
    """Units that each part of a line may take, so that one of each fits on a page. address: of a link."""

    piece: int
    head: int
    frames: int
    address: int

    @classmethod
    def of(cls, limit: int) -> Budget:
        return cls(piece=min(_LONGEST_PIECE, limit // 4), head=limit // 4, frames=limit // 5, address=limit // 3)


def text_lines(line: Line, dialect: Dialect, budget: Budget) -> list[Line]:
    """A line of text given by its `runs`, split into pieces if it is long."""
    if sum(len(run.text) for run in line.runs) <= budget.piece:
        text = write_line(line.runs, dialect)
        if dialect.measure(text) <= budget.piece:
            return [replace(line, text=text)]
    return [
        replace(_onward(line) if index else line, text=write_line(piece, dialect), runs=tuple(piece))
        for index, piece in enumerate(cut_runs(line.runs, dialect, budget.piece))
    ]


def _onward(line: Line) -> Line:
    """A line as a template for its further pieces."""
    return replace(line, newlines=0, border=BEFORE_WORD, fresh=0)


def code_lines(line: Line, dialect: Dialect, budget: Budget) -> list[Line]:
    """A line of code whose `text` is not yet escaped, split into pieces if it is long."""
    source = line.text

    def cost(start: int, end: int) -> int:
        text = dialect.escape_code(source[start:end])
        return dialect.measure(text) + 2 * max(0, longest_ticks(text) - 2) * dialect.measure("`")

    ends = list(_cuts(source, cost, budget.piece)) or [0]
    return [
        replace(_onward(line) if start else line, text=dialect.escape_code(source[start:end]))
        for start, end in itertools.pairwise([0, *ends])
    ]


def cut_runs(runs: Sequence[Run], dialect: Dialect, budget: int) -> list[list[Run]]:
    """The runs split into pieces of at most `budget` units each."""
    source = "".join(run.text for run in runs)
    starts: list[int] = []
    position = 0
    for run in runs:
        starts.append(position)
        position += len(run.text)

    def piece(start: int, end: int) -> list[Run]:
        found: list[Run] = []
        for index in range(bisect_right(starts, start) - 1, len(runs)):
            if starts[index] >= end:
                break
            found.append(runs[index].of(runs[index].text[max(0, start - starts[index]) : end - starts[index]]))
        return found

    def cost(start: int, end: int) -> int:
        return dialect.measure(write_line(piece(start, end), dialect))

    ends = list(_cuts(source, cost, budget))
    return [piece(start, end) for start, end in itertools.pairwise([0, *ends])]


def _cuts(source: str, cost: Callable[[int, int], int], budget: int) -> Iterator[int]:
    """Where the pieces of the source end. cost: of source[start:end].

    A long address may cost more than a piece may hold: its link's text is not cut into single letters because of it.
    """
    least = max(1, budget // 8)
    start = 0
    while start < len(source):
        size = min(len(source) - start, budget)
        while size > least and (units := cost(start, start + size)) > budget:
            size = max(least, min(size - 1, size * budget // units))
        start += cut(source[start : start + size + 1], size, TextUnit.CHARACTERS)
        yield start
