"""A report's Markdown as blocks: the part of the language that reports need, and captions, callouts and notes."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = ("title", "subtitle", "author", "organisation", "date", "status", "version", "language", "toc", "paper")
CALLOUTS = ("note", "key", "warning", "decision")
HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
ITEM = re.compile(r"^(\s*)([-*+]|\d+[.)])\s+(.*)$")
IMAGE = re.compile(r"^!\[(.*?)\]\((\S+?)\)\s*$")
NOTE = re.compile(r"^\[\^([\w-]+)\]:\s+(.*)$")
NOTE_MARK = re.compile(r"\[\^([\w-]+)\]")
CAPTION = re.compile(r"^(?:Table|Tabelle|表)\s*[:：]\s*(.*)$")
CALLOUT = re.compile(r"^>\s*\[!(\w+)\]\s*(.*)$")
RULE = re.compile(r"^(?:-{3,}|\*{3,}|_{3,})\s*$")
TABLE_LINE = re.compile(r"^\s*\|?\s*:?-{2,}:?\s*(\|\s*:?-{2,}:?\s*)*\|?\s*$")
BREAK = "<!-- pagebreak -->"
INLINE = re.compile(
    r"(?P<code>`+)(?P<coded>.+?)(?P=code)|\*\*(?P<bold>.+?)\*\*|(?<![\w*])\*(?P<italic>[^*\s][^*]*?)\*(?!\w)|"
    r"\[\^(?P<note>[\w-]+)\]|\[(?P<text>[^\]]+)\]\((?P<url>[^)\s]+)\)|\[(?P<cite>\d{1,3})\](?!\()|<(?P<auto>https?://[^>]+)>"
)


def stop(problem: str, fix: str) -> NoReturn:
    """Ends the script with one line that says what to do."""
    sys.exit(f"error: {problem}\n  fix: {fix}")


class Span(NamedTuple):
    """A run of text with one look. link: where it leads: an address, #note-x or #source-n."""

    text: str
    bold: bool = False
    italic: bool = False
    code: bool = False
    raised: bool = False
    link: str = ""


@dataclass
class Block:
    """heading, paragraph, item, quote, callout, code, table, image, break. level: of headings and items; ordered: an
    item's number, 0 for a bullet; kind_of: a callout's; caption: a table's or an image's; target: the image's file."""

    kind: str
    line: int
    text: str = ""
    level: int = 0
    ordered: int = 0
    kind_of: str = ""
    caption: str = ""
    target: str = ""
    rows: list[list[str]] = field(default_factory=list)


@dataclass
class Report:
    """A whole one. notes: footnotes by their names, in the order of their definition."""

    about: dict[str, str]
    blocks: list[Block]
    notes: dict[str, str]

    @property
    def language(self) -> str:
        return self.about.get("language", "en").lower()[:2]


def parse(text: str) -> Report:
    """Ends the script when the front matter is wrong."""
    about, body, first = _front(text.replace("\r\n", "\n").lstrip("\ufeff"))
    lines = body.split("\n")
    notes: dict[str, str] = {}
    reader = _Lines(lines, first)
    return Report(about, list(_blocks(reader, notes)), notes)


def _front(text: str) -> tuple[dict[str, str], str, int]:
    if not text.startswith("---\n"):
        return {}, text, 1
    front, sign, body = text[4:].partition("\n---\n")
    if not sign:
        stop("the front matter has no end", "close it with a line of ---")
    about = {}
    for line in front.splitlines():
        key, colon, value = line.partition(":")
        if line.strip() and (not colon or key.strip() not in KEYS):
            stop(
                f"front matter: {line.strip()!r} is not understood",
                f"give one `key: value` a line, of: {', '.join(KEYS)}",
            )
        if line.strip():
            about[key.strip()] = value.strip().strip("\"'")
    return about, body, front.count("\n") + 4


class _Lines:
    """Lines that can be looked at before they are taken."""

    def __init__(self, lines: list[str], first: int) -> None:
        self._lines, self._at, self._first = lines, 0, first

    @property
    def number(self) -> int:
        return self._at + self._first

    def peek(self, ahead: int = 0) -> str | None:
        at = self._at + ahead
        return self._lines[at] if at < len(self._lines) else None

    def take(self) -> str:
        self._at += 1
        return self._lines[self._at - 1]

    def take_while(self, pattern: str) -> list[str]:
        taken = []
        while (line := self.peek()) is not None and re.match(pattern, line):
            taken.append(self.take())
        return taken


def _blocks(lines: _Lines, notes: dict[str, str]) -> Iterator[Block]:
    caption = ""
    while (line := lines.peek()) is not None:
        number = lines.number
        if not line.strip() or (line.startswith("<!--") and line.strip() != BREAK):
            lines.take()
        elif found := NOTE.match(line):
            lines.take()
            notes[found[1]] = " ".join([found[2], *(each.strip() for each in lines.take_while(r"\s{2,}\S"))])
        elif found := CAPTION.match(line):
            lines.take()
            caption = found[1]
        elif "|" in line and TABLE_LINE.match(lines.peek(1) or ""):
            yield _table(lines, caption)
            caption = ""
        elif line.startswith("```"):
            yield _code(lines)
        elif line.strip() == BREAK or RULE.match(line):
            lines.take()
            yield Block("break" if line.strip() == BREAK else "rule", number)
        elif found := HEADING.match(line):
            lines.take()
            yield Block("heading", number, found[2], level=len(found[1]))
        elif found := IMAGE.match(line):
            lines.take()
            yield Block("image", number, caption=found[1], target=found[2])
        elif line.startswith(">"):
            yield _quote(lines)
        elif ITEM.match(line):
            yield _item(lines)
        else:
            yield _paragraph(lines)


def _table(lines: _Lines, caption: str) -> Block:
    block = Block("table", lines.number, caption=caption)
    rows = [lines.take()]
    lines.take()
    while (line := lines.peek()) is not None and "|" in line and line.strip():
        rows.append(lines.take())
    block.rows = [_cells(row) for row in rows]
    return block


def _cells(row: str) -> list[str]:
    inner = row.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", inner)]


def _code(lines: _Lines) -> Block:
    block = Block("code", lines.number)
    fence = re.match("`+", lines.take())
    taken: list[str] = []
    while (line := lines.peek()) is not None and fence is not None and not line.startswith(fence[0]):
        taken.append(lines.take())
    if lines.peek() is None:
        stop(f"line {block.line}: the code block has no end", "close it with ```")
    lines.take()
    block.text = "\n".join(taken)
    return block


def _quote(lines: _Lines) -> Block:
    number = lines.number
    taken = lines.take_while(">")
    if found := CALLOUT.match(taken[0]):
        if found[1].lower() not in CALLOUTS:
            stop(f"line {number}: a callout [!{found[1]}] is unknown", f"use one of: {', '.join(CALLOUTS)}")
        text = " ".join([found[2], *(line.lstrip("> ") for line in taken[1:])])
        return Block("callout", number, text.strip(), kind_of=found[1].lower())
    return Block("quote", number, " ".join(line.lstrip("> ") for line in taken))


def _item(lines: _Lines) -> Block:
    number = lines.number
    found = ITEM.match(lines.take())
    assert found is not None
    more = []
    while (line := lines.peek()) is not None and re.match(r"\s{2,}\S", line) and not ITEM.match(line):
        more.append(lines.take().strip())
    ordered = int(found[2][:-1]) if found[2][0].isdigit() else 0
    return Block(
        "item", number, " ".join([found[3], *more]), level=(len(found[1].expandtabs(4)) + 1) // 3, ordered=ordered
    )


def _paragraph(lines: _Lines) -> Block:
    block = Block("paragraph", lines.number)
    taken = [lines.take()]
    while (
        (line := lines.peek()) is not None
        and line.strip()
        and not re.match(r"#{1,6}\s|```|>|!\[|\||<!--|\[\^[\w-]+\]:", line)
        and not ITEM.match(line)
    ):
        taken.append(lines.take())
    block.text = " ".join(line.strip() for line in taken)
    return block


def spans(text: str, *, bold: bool = False, italic: bool = False) -> list[Span]:
    """A block's text in pieces."""
    found: list[Span] = []
    at = 0
    for each in INLINE.finditer(text):
        if each.start() > at:
            found.append(Span(text[at : each.start()], bold, italic))
        at = each.end()
        found += _span(each, bold=bold, italic=italic)
    return [*found, Span(text[at:], bold, italic)] if at < len(text) else found


def _span(each: re.Match[str], *, bold: bool, italic: bool) -> list[Span]:
    if each["coded"] is not None:
        return [Span(each["coded"].strip(), bold, italic, code=True)]
    if each["bold"]:
        return spans(each["bold"], bold=True, italic=italic)
    if each["italic"]:
        return spans(each["italic"], bold=bold, italic=True)
    if each["note"]:
        return [Span(each["note"], raised=True, link=f"#note-{each['note']}")]
    if each["cite"]:
        return [Span(f"[{each['cite']}]", bold, italic, link=f"#source-{each['cite']}")]
    return [Span(each["text"] or each["auto"], bold, italic, link=each["url"] or each["auto"])]


def plain(text: str) -> str:
    """Without marks."""
    return "".join(span.text for span in spans(text) if not span.raised)


def is_sources(block: Block) -> bool:
    """Whether a heading begins the list of sources."""
    names = ("sources", "references", "quellen", "literatur", "bibliography", "来源", "参考文献", "参考资料")
    return block.kind == "heading" and plain(block.text).strip().lower() in names
