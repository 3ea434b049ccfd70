"""Markdown blocks as a PDF with text that can be searched and copied; drawn with matplotlib, which brings fonts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import matplotlib

matplotlib.use("pdf")
from blocks import Block, Piece, plain
from fonts import Face, faces, missing_signs, split_words, width
from matplotlib import image as mpl_image
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from report import CannotConvert

if TYPE_CHECKING:
    from pathlib import Path

    from report import Report

PAPERS = {"a4": (595.0, 842.0), "letter": (612.0, 792.0)}
"""In points, as is everything here."""
MARGIN, SIZE, LEADING = 62.0, 10.5, 1.4
HEADINGS = (20.0, 16.0, 13.5, 12.0, 11.0, 10.5)
INDENT, PAD = 18.0, 4.0
MOST_UPRIGHT, MOST_COLUMNS = 7, 14
"""Of a table: in portrait, and at all."""
TEXT, LINK, GREY, LINE = "#1f2933", "#1f5fa8", "#5a6672", "#b8c2cc"

Word = tuple[str, Piece]


@dataclass
class Sheet:
    """Pages that fill from the top. y: where the next line begins, from the page's top."""

    paper: tuple[float, float]
    pages: list[list[Any]] = field(default_factory=lambda: [[]])
    y: float = MARGIN

    @property
    def room(self) -> float:
        return self.paper[0] - 2 * MARGIN

    def need(self, height: float) -> None:
        """Go on to a new page unless there is so much room."""
        if self.y + height > self.paper[1] - MARGIN and self.y > MARGIN:
            self.pages.append([])
            self.y = MARGIN

    def text(self, x: float, y: float, words: list[Word], size: float, colour: str = TEXT) -> None:
        for text, piece in words:
            face = Face(bold=piece.bold, italic=piece.italic, mono=piece.code)
            self.pages[-1].append(("text", x, y, text, face, size, LINK if piece.link else colour, piece.link))
            x += width(text, face, size)

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.pages[-1].append(("line", x1, y1, x2, y2))


def write(path: Path, blocks: list[Block], report: Report, *, folder: Path, paper: str, title: str) -> None:
    """folder: where pictures are looked for. Raises CannotConvert where the fonts lack signs of the text."""
    lacking = missing_signs("".join(_all_text(block) for block in blocks))
    if lacking:
        raise CannotConvert(
            f"the PDF would have boxes instead of {len(lacking)} signs ({''.join(sorted(lacking)[:12])}): there is no "
            "font for them here. Make a .docx or .html, which use the reader's fonts."
        )
    columns = max((len(block.rows[0]) for block in blocks if block.rows), default=0)
    if columns > MOST_COLUMNS:
        raise CannotConvert(f"a table of {columns} columns cannot be read on paper: make an .xlsx or .html of it")
    size = PAPERS[paper]
    if columns > MOST_UPRIGHT:
        size = size[::-1]
        report.notes.append(f"landscape pages, for a table of {columns} columns")
    sheet = Sheet(size)
    for number, block in enumerate(blocks):
        following = blocks[number + 1] if number + 1 < len(blocks) else None
        _block(sheet, block, report, folder, following)
        if block.kind == "item" and (following is None or following.kind != "item"):
            sheet.y += SIZE * 0.5
    with PdfPages(str(path), metadata={"Title": title, "Creator": "Antler"}) as pdf:
        for number, page in enumerate(sheet.pages, 1):
            pdf.savefig(_figure(sheet, page, number))
    report.kept["pages"] = len(sheet.pages)


def _all_text(block: Block) -> str:
    cells = "".join(plain(cell) for row in block.rows for cell in row)
    return plain(block.pieces) + block.text + cells


def _block(sheet: Sheet, block: Block, report: Report, folder: Path, following: Block | None) -> None:
    match block.kind:
        case "heading":
            size = HEADINGS[block.level - 1]
            sheet.y += size * 0.7 if sheet.y > MARGIN else 0
            sheet.need(size * LEADING * (3 if following is not None else 1))  # never alone at the end of a page
            _paragraph(sheet, tuple(piece._replace(bold=True) for piece in block.pieces), size=size)
        case "item":
            mark = f"{block.number}." if block.number else "•" if block.level == 0 else "–"
            _paragraph(sheet, block.pieces, left=INDENT * (block.level + 1), mark=mark, gap=2)
        case "quote":
            _paragraph(sheet, block.pieces, left=INDENT, colour=GREY, bar=True)
        case "code":
            for line in block.text.split("\n"):
                _paragraph(sheet, (Piece(line or " ", code=True),), left=INDENT / 2, size=8.5, gap=0)
            sheet.y += SIZE * 0.5
        case "table":
            _table(sheet, block, report)
        case "rule":
            sheet.line(MARGIN, sheet.y, sheet.paper[0] - MARGIN, sheet.y)
            sheet.y += SIZE
        case "picture":
            _picture(sheet, block, report, folder)
        case _:
            _paragraph(sheet, block.pieces)


def _paragraph(
    sheet: Sheet,
    pieces: tuple[Piece, ...],
    *,
    left: float = 0,
    size: float = SIZE,
    mark: str = "",
    gap: float = SIZE * 0.6,
    colour: str = TEXT,
    bar: bool = False,
) -> None:
    for number, words in enumerate(lines_of(pieces, size, sheet.room - left)):
        sheet.need(size * LEADING)
        baseline = sheet.y + size
        if mark and number == 0:
            sheet.text(MARGIN + left - INDENT * 0.85, baseline, [(mark, Piece(mark))], size, colour)
        if bar:
            sheet.line(MARGIN + 4, sheet.y, MARGIN + 4, sheet.y + size * LEADING)
        sheet.text(MARGIN + left, baseline, words, size, colour)
        sheet.y += size * LEADING
    sheet.y += gap


def lines_of(pieces: tuple[Piece, ...], size: float, room: float) -> list[list[Word]]:
    """Broken where they do not fit; a word that is wider than the room is cut."""
    lines: list[list[Word]] = [[]]
    used = 0.0
    for piece in pieces:
        face = Face(bold=piece.bold, italic=piece.italic, mono=piece.code)
        for word in split_words(piece.text, lambda text, face=face: width(text, face, size) <= room):
            wide = width(word.rstrip(), face, size)
            if word == "\n" or (used and used + wide > room):
                lines.append([])
                used = 0.0
            if word != "\n" and (word.strip() or used or piece.code):
                lines[-1].append((word, piece))
                used += width(word, face, size)
    return lines


def _table(sheet: Sheet, block: Block, report: Report) -> None:
    size = 9.0 if len(block.rows[0]) <= 6 else 7.5
    columns = _columns(block, size, sheet.room)
    head: list[Any] = []
    for number, row in enumerate(block.rows):
        looks = [tuple(piece._replace(bold=True) for piece in cell) if number == 0 else cell for cell in row]
        cells = [lines_of(cell, size, wide - 2 * PAD) for cell, wide in zip(looks, columns, strict=True)]
        most = int((sheet.paper[1] - 2 * MARGIN - 4 * PAD) / (size * LEADING))
        if max(map(len, cells)) > most:
            cells = [lines[:most] for lines in cells]
            report.lose("table rows longer than a page (cut)")
        page = len(sheet.pages)
        sheet.need(max(map(len, cells)) * size * LEADING + 2 * PAD)
        if number and len(sheet.pages) > page:
            _row(sheet, head, columns, size)  # again on the new page
        head = head or cells
        _row(sheet, cells, columns, size)
    sheet.y += SIZE


def _columns(block: Block, size: float, room: float) -> list[float]:
    """Widths, by the longest text of each column; none is squeezed below a seventh of the room."""
    wanted = [
        max(sum(width(piece.text, Face(bold=True), size) for piece in row[at]) for row in block.rows) + 2 * PAD + 2
        for at in range(len(block.rows[0]))
    ]
    if sum(wanted) <= room:
        return wanted
    least = [min(each, room / max(7, len(wanted))) for each in wanted]
    free = room - sum(least)
    over = [each - base for each, base in zip(wanted, least, strict=True)]
    return [base + free * each / sum(over) for base, each in zip(least, over, strict=True)]


def _row(sheet: Sheet, cells: list[list[list[Word]]], columns: list[float], size: float) -> None:
    x, height = MARGIN, max(map(len, cells)) * size * LEADING + PAD
    for lines, wide in zip(cells, columns, strict=True):
        for number, words in enumerate(lines):
            sheet.text(x + PAD, sheet.y + size + number * size * LEADING, words, size)
        x += wide
    sheet.y += height
    sheet.line(MARGIN, sheet.y, MARGIN + sum(columns), sheet.y)
    sheet.y += PAD


def _picture(sheet: Sheet, block: Block, report: Report, folder: Path) -> None:
    path = folder / block.target
    if "://" in block.target or not path.is_file():
        report.lose("pictures that are not here")
        _paragraph(sheet, (Piece(f"[{block.text or block.target}]"),), colour=GREY)
        return
    picture = mpl_image.pil_to_array(_opened(path))
    high, wide = picture.shape[:2]
    scale = min(sheet.room / wide, (sheet.paper[1] - 2 * MARGIN) / high, 0.75)
    sheet.need(high * scale)
    sheet.pages[-1].append(("image", MARGIN, sheet.y, wide * scale, high * scale, picture))
    sheet.y += high * scale + SIZE


def _opened(path: Path) -> Any:
    from PIL import Image

    return Image.open(path).convert("RGB")


def _figure(sheet: Sheet, page: list[Any], number: int) -> Figure:
    wide, high = sheet.paper
    figure = Figure(figsize=(wide / 72, high / 72))
    with matplotlib.rc_context({"pdf.fonttype": 42}):
        for kind, x, y, *rest in page:
            if kind == "text":
                text, face, size, colour, link = rest
                drawn = figure.text(
                    x / wide, 1 - y / high, text, size=size, color=colour, parse_math=False, va="baseline"
                )
                drawn.set_fontproperties(faces(face, size))
                if link:
                    drawn.set_url(link)
            elif kind == "line":
                figure.add_artist(
                    Line2D([x / wide, rest[0] / wide], [1 - y / high, 1 - rest[1] / high], lw=0.6, color=LINE)
                )
            else:
                across, down, picture = rest
                axes = figure.add_axes((x / wide, 1 - (y + down) / high, across / wide, down / high))
                axes.imshow(picture, aspect="auto")
                axes.axis("off")
    figure.text(0.5, 30 / high, str(number), size=8, color=GREY, ha="center")
    return figure
