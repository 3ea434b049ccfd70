"""Splits a text into passages, each with its page and the headings above it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.web.sections import HEADING, PAGE_BREAK, coded

if TYPE_CHECKING:
    from collections.abc import Iterator

SHORTEST = 200
"""Characters below which a passage continues under the next heading of its page."""
LONGEST_HEADING = 200
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])|\n")


@dataclass(frozen=True, slots=True)
class Passage:
    """page: from 1; None for a text without pages. heading: those above it, the highest first, joined by " › "."""

    text: str
    page: int | None = None
    heading: str = ""


@dataclass(frozen=True, slots=True)
class _Block:
    """A paragraph. level: of a heading; 0 for other paragraphs."""

    text: str
    page: int
    level: int = 0


def passages_of(text: str, most: int) -> list[Passage]:
    """Split the whole text, in order. most: characters of a passage."""
    paged = PAGE_BREAK in text
    made: list[Passage] = []
    held: list[str] = []
    above: dict[int, str] = {}
    heading, page = "", 1

    def flush() -> None:
        nonlocal held
        whole = "\n\n".join(held).strip()
        held = []
        made.extend(Passage(part, page if paged else None, heading) for part in _cut(whole, most) if part)

    for block in _blocks(text):
        size = sum(map(len, held))
        if held and (block.page != page or size + len(block.text) > most or (block.level and size >= SHORTEST)):
            flush()
        page = block.page
        if block.level:
            above = {level: title for level, title in above.items() if level < block.level}
            above[block.level] = _title(block.text)
            if not held:
                heading = " › ".join(above[level] for level in sorted(above))[:LONGEST_HEADING]
        elif not held:
            heading = " › ".join(above[level] for level in sorted(above))[:LONGEST_HEADING]
        held.append(block.text)
    flush()
    return made


def _title(line: str) -> str:
    """The words of a heading, without its markers, which may also close it."""
    words = line.lstrip("#").strip(" \t")
    closed = words.rstrip("#")
    return closed.rstrip(" \t") if closed.endswith((" ", "\t")) else words


def _blocks(text: str) -> Iterator[_Block]:
    """Paragraphs and headings; a code block counts as one paragraph."""
    for page, content in enumerate(text.split(PAGE_BREAK), 1):
        lines: list[str] = []
        for line, is_code in coded(content.splitlines()):
            heading = None if is_code else HEADING.fullmatch(line)
            if heading or not (is_code or line.strip()):
                if lines:
                    yield _Block("\n".join(lines), page)
                    lines = []
                if heading:
                    yield _Block(line.strip(), page, len(heading[1]))
                continue
            lines.append(line)
        if lines:
            yield _Block("\n".join(lines), page)


def _cut(text: str, most: int) -> Iterator[str]:
    """Split a text that is too long for one passage between lines and sentences; a table's header is repeated."""
    if len(text) <= most:
        yield text
        return
    lines = text.splitlines()
    table = len(lines) > 2 and lines[0].startswith("|") and lines[1].lstrip().startswith("|") and "--" in lines[1]
    head = "\n".join(lines[:2]) + "\n" if table and len(lines[0]) < most // 4 else ""
    held = ""
    for piece in _pieces(text, most - len(head)):
        if held and len(held) + len(piece) > most:
            yield held.strip()
            held = head
        held += piece
    yield held.strip()


def _pieces(text: str, most: int) -> Iterator[str]:
    """Sentences and lines with their separators, none longer than `most`."""
    at = 0
    ends = [found.end() for found in _SENTENCE.finditer(text)]
    for end in [*ends, len(text)]:
        while end - at > most:
            yield text[at : at + most]
            at += most
        if end > at:
            yield text[at:end]
            at = end
