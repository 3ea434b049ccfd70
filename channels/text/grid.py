"""Sets a table in columns of a monospaced font, if it fits a narrow screen. Used by adapters without native tables.

How a table is set is decided by its first rows, so that it does not jump while later rows arrive.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from channels.text.blocks import has_link, plain
from channels.text.split import clusters, display_width, utf16_length

if TYPE_CHECKING:
    from collections.abc import Sequence

    from channels.text.blocks import Align, Inlines, Table

_BETWEEN = " | "
_NARROWEST = 8
_LONGEST_WORD = 12
_HIGHEST_ROW = 4
# The first rows decide as long as they are together about two thirds of a message.
_SAMPLE_COST = 2400
_ROW_COST = 60
_SPAN_COST = 80
# After right-to-left text: what follows goes on from left to right, so that the columns keep their order.
_LEFT_TO_RIGHT = "\u200e"
_WORDS = re.compile(r"\S+\s*")


@dataclass(frozen=True, slots=True)
class Grid:
    """A table's columns. widths: in display columns."""

    widths: tuple[int, ...]
    align: tuple[Align, ...]

    def row(self, cells: Sequence[Inlines]) -> tuple[str, ...] | None:
        """The row's lines; None when it is too high or holds a link, which a monospaced block cannot show."""
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
    """The table's grid within `columns` display columns, None when it does not fit or has links."""
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
    """Take from the widest column first."""
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
