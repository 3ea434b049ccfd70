"""The text of PDF files: as it stands on the pages, or as headings and paragraphs by sizes and gaps of its lines."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pdfplumber
from pdf_tools import opened, ranges, wanted
from report import CannotConvert, Report

if TYPE_CHECKING:
    from pathlib import Path

LARGER = 1.12
"""Than the body, so many times, is a heading's size; three sizes are told apart."""
WIDE_GAP = 0.75
"""Of a line's height between two lines parts paragraphs."""
LONGEST_HEADING, HEADING_LEVELS = 140, 3
_BULLET = re.compile(r"^[•●▪■◦‣·–]\s+")
_NUMBERED = re.compile(r"^\d{1,3}[.)]\s+")


class Line(NamedTuple):
    """size: of its letters. gap: to the line above, in its own heights. left, right: its edges in points."""

    text: str
    size: float
    gap: float
    left: float
    right: float


def text_of(path: Path, report: Report, *, pages: str = "", password: str = "", layout: bool = False) -> list[str]:
    """The text of each page. layout: with spaces as on the page, for forms and columns. Raises CannotConvert."""
    reader = opened(path, password)
    numbers = wanted(pages, len(reader.pages))
    with pdfplumber.open(path, password=password) as pdf:
        texts = [pdf.pages[number].extract_text(layout=layout) or "" for number in numbers]
    empty = [number + 1 for number, text in zip(numbers, texts, strict=True) if not text.strip()]
    if len(empty) == len(texts):
        raise CannotConvert(
            f"none of these pages of {path.name} has text: they are scans, and there is no OCR here. Draw them with "
            "pdf-pages and read them with view_image, if the model can see; else tell the person"
        )
    if empty:
        report.notes.append(f"pages without text (scans or drawings): {ranges(empty)}")
    report.kept["pages"] = len(texts)
    report.lost["pictures"] = sum(len(reader.pages[number].images) for number in numbers)
    return texts


def markdown_of(path: Path, report: Report, *, pages: str = "", password: str = "") -> str:
    """Headings, paragraphs and lists, as far as sizes and gaps tell. Raises CannotConvert."""
    text_of(path, report, pages=pages, password=password)
    numbers = wanted(pages, len(opened(path, password).pages))
    with pdfplumber.open(path, password=password) as pdf:
        by_page = [_lines(pdf.pages[number]) for number in numbers]
    repeated = _repeated(by_page)
    lines = [line for page in by_page for line in page if _shape(line.text) not in repeated]
    if repeated:
        report.notes.append(f"{len(repeated)} lines that stand on most pages (headers, page numbers) were left out")
    report.notes.append("headings and paragraphs are guessed from sizes and gaps: look the result over")
    return _blocks(lines)


def _lines(page: pdfplumber.page.Page) -> list[Line]:
    lines: list[Line] = []
    below = -1000.0
    for each in page.extract_text_lines(return_chars=True):
        size = Counter(round(char["size"], 1) for char in each["chars"]).most_common(1)[0][0]
        lines.append(Line(each["text"].strip(), size, (each["top"] - below) / max(size, 1), each["x0"], each["x1"]))
        below = each["bottom"]
    return [line for line in lines if line.text]


def _repeated(pages: list[list[Line]]) -> set[str]:
    """First and last lines that most pages have, whatever number is in them."""
    if len(pages) < 2:
        return {_shape(page[-1].text) for page in pages if page and page[-1].text.isdigit()}
    edges = Counter(shape for page in pages for shape in {_shape(line.text) for line in (*page[:1], *page[-1:])})
    return {shape for shape, count in edges.items() if count > 0.6 * len(pages)}


def _shape(text: str) -> str:
    return re.sub(r"\d+", "#", text)


def _blocks(lines: list[Line]) -> str:
    letters = Counter[float]()
    for line in lines:
        letters[line.size] += len(line.text)
    body = letters.most_common(1)[0][0] if letters else 10.0
    sizes = sorted({line.size for line in lines if line.size >= body * LARGER}, reverse=True)
    edge = max((line.right for line in lines), default=0.0)
    blocks: list[str] = []
    open_until = False
    begun = 0.0  # where the last list item began
    last_level = 0
    for line in lines:
        level = sizes.index(line.size) + 1 if line.size in sizes and len(line.text) <= LONGEST_HEADING else 0
        if level:
            goes_on = level == last_level and 0 <= line.gap < WIDE_GAP
            text = line.text if goes_on else f"{'#' * min(level, HEADING_LEVELS)} {line.text}"
        else:
            goes_on = open_until and not last_level and line.gap < WIDE_GAP and not _starts(line.text)
            goes_on = goes_on and line.left > begun
            begun = line.left if _starts(line.text) else begun if goes_on else 0.0
            text = line.text if goes_on else _escaped(line.text)
        if goes_on and blocks:
            blocks[-1] = _joined(blocks[-1], text)
        else:
            blocks.append(text)
        # A line that ends far before the edge is its paragraph's last, unless nothing but a gap says so.
        open_until, last_level = line.right > 0.8 * edge or not line.text.endswith((".", "!", "?", ":", "。")), level
    return re.sub(r"(?m)^(- .*|\d+[.)] .*)\n\n(?=- |\d+[.)] )", r"\1\n", "\n\n".join(blocks)) + "\n"


def _starts(text: str) -> bool:
    return bool(_BULLET.match(text) or _NUMBERED.match(text))


def _joined(before: str, text: str) -> str:
    """A word that was parted at the end of a line is whole again."""
    parted = re.search(r"[^\W\d_]-$", before) and text[:1].islower()
    return before[:-1] + text if parted else f"{before} {text}"


def _escaped(text: str) -> str:
    """A bullet is one of Markdown's; what would be read as a heading or a quote stays text."""
    return re.sub(r"^([#>+*-])", r"\\\1", text) if not _BULLET.match(text) else _BULLET.sub("- ", text)
