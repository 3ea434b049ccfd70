"""What is wrong with a report before it is built: called by check_report.py and build_report.py."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from _markdown import NOTE_MARK, Block, Report, is_sources, plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLACEHOLDER = re.compile(
    r"«[^»]*»|\{\{.*?\}\}|\b(?:TODO|TBD|TBC|FIXME|XXX+)\b|lorem ipsum|"
    r"\[(?:insert|name|date|figure|source)[^\]]*\](?!\()",
    re.IGNORECASE,
)
SUMMARY = re.compile(
    r"^(?:[\d.]+\s*)?(?:executive |management )?(?:summary|zusammenfassung|kurzfassung|key findings|in brief|"
    r"abstract)\b|^(?:摘要|概要|要点)",
    re.IGNORECASE,
)
VAGUE_TIME = re.compile(
    r"\b(?:currently|recently|nowadays|soon|last year|this year|next month|yesterday|today|derzeit|"
    r"kürzlich|demnächst)\b|目前|最近|近期",
    re.IGNORECASE,
)
NUMBER = re.compile(r"(?<![\w.])\d[\d.,]*\d|(?<![\w.,])\d(?![\w.,])")
CITE = re.compile(r"\[(\d{1,3})\](?!\()")
LONG_SUMMARY, LONG_SECTION, LONG_SENTENCE = 350, 700, 45
"""Words. Of scripts without spaces two characters count as one."""


def length(text: str) -> int:
    """In words."""
    eastern = len(re.findall(r"[\u3040-\u30ff\u4e00-\u9fff]", text))
    return len(re.findall(r"[^\W\d_][\w'’-]*", re.sub(r"[\u3040-\u30ff\u4e00-\u9fff]", " ", text))) + eastern // 2


def errors(report: Report, folder: Path) -> list[str]:
    """What must be mended before anybody gets the report."""
    return [
        *_front(report),
        *_left_over(report),
        *_files(report, folder),
        *_tables(report),
        *_references(report),
        *_empty(report),
    ]


def _front(report: Report) -> Iterator[str]:
    if not report.about.get("title"):
        yield "line 1: no title: begin the file with front matter (title, author, date)"
    if report.about.get("paper", "a4").lower() not in ("a4", "letter"):
        yield "front matter: paper is a4 or letter"


def _left_over(report: Report) -> Iterator[str]:
    for key, value in report.about.items():
        if found := PLACEHOLDER.search(value):
            yield f"front matter: {key} still says {found[0]}"
    for block in report.blocks:
        text = " ".join([block.text, block.caption, *(cell for row in block.rows for cell in row)])
        if block.kind != "code" and (found := PLACEHOLDER.search(text)):
            yield f"line {block.line}: still to be written: {found[0][:60]}"


def _files(report: Report, folder: Path) -> Iterator[str]:
    for block in report.blocks:
        if block.kind == "image" and "://" in block.target:
            yield f"line {block.line}: pictures of the web are not fetched: save it beside the report first"
        elif block.kind == "image" and not (folder / block.target).is_file():
            yield f"line {block.line}: there is no picture {block.target}"


def _tables(report: Report) -> Iterator[str]:
    for block in report.blocks:
        wrong = [number for number, row in enumerate(block.rows, 1) if len(row) != len(block.rows[0])]
        if wrong:
            cells = len(block.rows[wrong[0] - 1])
            yield f"line {block.line}: row {wrong[0]} has {cells} cells, the head {len(block.rows[0])}"


def _references(report: Report) -> Iterator[str]:
    listed = set(sources(report))
    for block in report.blocks:
        text = (
            ""
            if block.kind == "code"
            else " ".join([block.text, block.caption, *(cell for row in block.rows for cell in row)])
        )
        for number in CITE.findall(text):
            if int(number) not in listed:
                yield f"line {block.line}: [{number}] is not in the list of sources (a heading Sources, then 1. 2. 3.)"
        for name in NOTE_MARK.findall(text):
            if name not in report.notes:
                yield f"line {block.line}: the note [^{name}] is not written: add a line [^{name}]: ..."


def _empty(report: Report) -> Iterator[str]:
    level = 0
    for number, block in enumerate(report.blocks):
        if block.kind != "heading":
            continue
        if level and block.level > level + 1:
            yield f"line {block.line}: a heading of level {block.level} follows one of level {level}"
        level = block.level
        after = report.blocks[number + 1] if number + 1 < len(report.blocks) else None
        if after is None or (after.kind == "heading" and after.level <= block.level):
            yield f"line {block.line}: nothing stands below {plain(block.text)!r}"


def sources(report: Report) -> dict[int, Block]:
    """The numbered items below the heading of the sources."""
    found: dict[int, Block] = {}
    inside = False
    for block in report.blocks:
        if block.kind == "heading":
            inside = is_sources(block)
        elif inside and block.kind == "item" and block.ordered:
            found[block.ordered] = block
    return found


def warnings(report: Report) -> list[str]:
    """What an editor would mark."""
    return [*_summary(report), *_lengths(report), *_captions(report), *_unused(report), *_vague(report)]


def sections(report: Report) -> Iterator[tuple[Block | None, list[Block]]]:
    """Headings with what stands directly below them."""
    heading: Block | None = None
    below: list[Block] = []
    for block in report.blocks:
        if block.kind == "heading":
            yield heading, below
            heading, below = block, []
        else:
            below.append(block)
    yield heading, below


def _text(blocks: list[Block]) -> str:
    parts = (
        [block.text, block.caption, *(cell for row in block.rows for cell in row)]
        for block in blocks
        if block.kind != "code"
    )
    return "\n".join(" ".join(part) for part in parts)


def _summary(report: Report) -> Iterator[str]:
    """A summary that stands alone, and says no figure that the body does not have."""
    parts = [(heading, below) for heading, below in sections(report) if heading is not None]
    summary = next(((heading, below) for heading, below in parts if SUMMARY.match(plain(heading.text))), None)
    if summary is None:
        if length(_text(report.blocks)) > LONG_SECTION:
            yield "no summary: most readers read nothing else; begin with one (result, reasons, what to do)"
        return
    heading, below = summary
    text = _text(below)
    if length(text) > LONG_SUMMARY:
        yield f"line {heading.line}: the summary has {length(text)} words; {LONG_SUMMARY} are enough"
    rest = _text([block for other, blocks in parts if other is not heading for block in blocks])
    known = {_digits(found) for found in NUMBER.findall(rest)}
    missing = [
        found for found in NUMBER.findall(CITE.sub("", text)) if _digits(found) not in known and len(_digits(found)) > 1
    ]
    if missing:
        yield f"line {heading.line}: figures of the summary that the body lacks: {', '.join(dict.fromkeys(missing))}"


def _digits(number: str) -> str:
    return re.sub(r"\D", "", number)


def _lengths(report: Report) -> Iterator[str]:
    for heading, below in sections(report):
        if heading is not None and (words := length(_text(below))) > LONG_SECTION:
            yield f"line {heading.line}: {words} words without a heading between them"
    for block in report.blocks:
        if block.kind in ("paragraph", "item", "callout"):
            for sentence in re.split(r"(?<=[.!?。！？])\s*", plain(block.text)):
                if length(sentence) > LONG_SENTENCE:
                    yield f"line {block.line}: a sentence of {length(sentence)} words: {sentence[:50]}..."


def _captions(report: Report) -> Iterator[str]:
    text = _text([block for block in report.blocks if block.kind not in ("heading", "image")])
    for kind, name in (("image", r"(?:Figure|Abbildung|Abb\.|图)"), ("table", r"(?:Table|Tabelle|Tab\.|表)")):
        for number, block in enumerate((each for each in report.blocks if each.kind == kind), 1):
            if not block.caption:
                how = "Table: ... in the line above" if kind == "table" else "the text in ![...]"
                yield f"line {block.line}: no caption ({how})"
            if kind == "image" and not re.search(rf"{name}\s*{number}\b", text):
                yield f"line {block.line}: the text never speaks of Figure {number}: say what is to be seen in it"


def _unused(report: Report) -> Iterator[str]:
    cited = {
        int(number)
        for block in report.blocks
        for number in CITE.findall(" ".join([block.text, block.caption, *(c for row in block.rows for c in row)]))
    }
    for number, block in sources(report).items():
        if number not in cited:
            yield f"line {block.line}: source {number} is cited nowhere"


def _vague(report: Report) -> Iterator[str]:
    for block in report.blocks:
        if block.kind in ("paragraph", "item", "callout") and (found := VAGUE_TIME.search(block.text)):
            yield f"line {block.line}: {found[0]!r} is wrong as soon as somebody reads it later: give the date"
