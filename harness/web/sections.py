"""Splits a long page into sections: by its headings, or by the pages of a document. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.text.plain import short_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PAGE_BREAK = "\f"
LEAST_PAGES = 3
LONGEST_TITLE = 120
LONGEST_FIRST = 300
"""Characters of a document's title."""
MOST_SECTIONS = 2000
HEADING = re.compile(r"(#{1,6})[ \t]++(\S.*)")
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")
_NUMBER = re.compile(r"(?:section|page)?\s*#?(\d{1,5})\.?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Section:
    """A section. number: its position, from 1; 0 is the part before the first heading. level: 1 for the highest. start,
    end: in characters of the page; subsections are included."""

    number: int
    level: int
    title: str
    start: int
    end: int


def sections_of(text: str) -> list[Section]:
    """All sections in order; [] for a page without headings and page breaks."""
    starts = _headings(text) or _pages(text)
    if not starts:
        return []
    found = []
    if text[: starts[0][2]].strip():
        found.append(Section(0, 1, "(text before the first heading)", 0, starts[0][2]))
    ends = _ends([level for level, _, _ in starts], [start for _, _, start in starts], len(text))
    numbered = zip(starts[:MOST_SECTIONS], ends, strict=False)
    return found + [
        Section(number, level, title, start, end) for number, ((level, title, start), end) in enumerate(numbered, 1)
    ]


def _ends(levels: list[int], starts: list[int], length: int) -> list[int]:
    """The end of each section: at the next one of its level, or of a higher one."""
    ends = [length] * len(levels)
    open_ones: list[int] = []
    for place, level in enumerate(levels):
        while open_ones and levels[open_ones[-1]] >= level:
            ends[open_ones.pop()] = starts[place]
        open_ones.append(place)
    return ends


def _headings(text: str) -> list[tuple[int, str, int]]:
    """(level, title, start) of each heading outside code blocks."""
    found = []
    at = 0
    for line, is_code in coded(text.splitlines(keepends=True)):
        begin, at = at, at + len(line)
        if not is_code and (heading := HEADING.fullmatch(line.rstrip())):
            found.append((len(heading[1]), _short(heading[2]), begin))
    return found


def coded(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it belongs to a code block, including its fences."""
    fence = ""
    for line in lines:
        if fence:
            yield line, True
            if line.lstrip(" ").startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        else:
            opening = _FENCE.match(line)
            fence = opening[1] if opening else ""
            yield line, bool(fence)


def first_heading(text: str) -> str:
    """A document's title, if it begins with one."""
    line = text.lstrip().partition("\n")[0]
    return line.lstrip("# ").strip()[:LONGEST_FIRST] if line.startswith("#") else ""


def _pages(text: str) -> list[tuple[int, str, int]]:
    """A document's pages, if there are several."""
    if text.count(PAGE_BREAK) < LEAST_PAGES - 1:
        return []
    starts = [0, *(found.end() for found in re.finditer(PAGE_BREAK, text))]
    return [(1, f"Page {number}", start) for number, start in enumerate(starts, 1) if text[start:].strip()]


def _short(title: str) -> str:
    return short_line(title.rstrip("#"), LONGEST_TITLE)


def outline(sections: list[Section], most: int) -> str:
    """A line for each section: number, title, characters; limited to `most` characters in all. Deep levels are dropped
    first, then the last sections."""
    deepest = max((section.level for section in sections), default=1)
    for level in range(deepest, 0, -1):
        lines = [_line(section) for section in sections if section.level <= level]
        if sum(len(line) + 1 for line in lines) <= most or level == 1:
            break
    kept: list[str] = []
    size = 0
    for line in lines:
        size += len(line) + 1
        if size > most:
            kept.append(f"… and {len(lines) - len(kept)} more, up to number {sections[-1].number}")
            break
        kept.append(line)
    return "\n".join(kept)


def _line(section: Section) -> str:
    return f"{'  ' * (section.level - 1)}{section.number}. {section.title} ({section.end - section.start})"


def find_section(sections: list[Section], wanted: str) -> Section | None:
    """The section with this number, else with this title, its beginning or a part of it, ignoring case."""
    words = " ".join(wanted.split()).casefold().lstrip("#").strip()
    if not words:
        return None
    titles = [(section.title.casefold(), section) for section in sections]
    if same := [section for title, section in titles if title == words]:
        return same[0]
    if number := _NUMBER.fullmatch(words):
        return next((section for section in sections if section.number == int(number[1])), None)
    beginning = (section for title, section in titles if title.startswith(words))
    holding = (section for title, section in titles if words in title)
    return next(beginning, None) or next(holding, None)
