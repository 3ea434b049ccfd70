"""Markdown blocks as a Word document with real styles, so that people can restyle it and make a table of contents."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import docx
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.shared import Cm, Pt, RGBColor

if TYPE_CHECKING:
    from pathlib import Path

    from blocks import Block, Piece
    from report import Report

PAPERS = {"a4": (21.0, 29.7), "letter": (21.59, 27.94)}
"""Width and height in cm."""
MARGIN = 2.3
LINK = RGBColor(0x1F, 0x5F, 0xA8)
DEEPEST_LIST = 3


def write(path: Path, blocks: list[Block], report: Report, *, folder: Path, paper: str, title: str) -> None:
    """folder: where pictures are looked for."""
    document = docx.Document()
    width, height = PAPERS[paper]
    section = document.sections[0]
    section.page_width, section.page_height = Cm(width), Cm(height)
    section.left_margin = section.right_margin = Cm(MARGIN)
    document.core_properties.title = title
    document.core_properties.author = ""
    numbering: dict[int, int] = {}
    for block in blocks:
        if block.kind != "item":
            numbering = {}  # the next list begins anew
        _block(document, block, numbering, report, folder, Cm(width - 2 * MARGIN))
    document.save(str(path))


def _block(document: Any, block: Block, numbering: dict[int, int], report: Report, folder: Path, width: Any) -> None:
    if block.kind == "heading":
        _fill(document.add_heading(level=min(block.level, 9)), block.pieces)
    elif block.kind == "item":
        _item(document, block, numbering)
    elif block.kind == "quote":
        _fill(document.add_paragraph(style="Intense Quote"), block.pieces)
    elif block.kind == "code":
        _code(document, block.text)
    elif block.kind == "table":
        _table(document, block)
    elif block.kind == "rule":
        _rule(document.add_paragraph())
    elif block.kind == "picture":
        _picture(document, block, report, folder, width)
    else:
        _fill(document.add_paragraph(), block.pieces)


def _fill(paragraph: Any, pieces: tuple[Piece, ...]) -> None:
    for piece in pieces:
        owner = _link(paragraph, piece.link) if piece.link.startswith(("http://", "https://", "mailto:")) else None
        run = paragraph.add_run(piece.text)
        run.bold = piece.bold or None
        run.italic = piece.italic or None
        run.font.strike = piece.struck or None
        if piece.code:
            run.font.name = "Courier New"
        if owner is not None:
            run.font.color.rgb = LINK
            run.font.underline = True
            owner.append(run._r)


def _link(paragraph: Any, target: str) -> Any:
    relation = paragraph.part.relate_to(target, docx.opc.constants.RELATIONSHIP_TYPE.HYPERLINK, is_external=True)
    element = OxmlElement("w:hyperlink")
    element.set(qn("r:id"), relation)
    paragraph._p.append(element)
    return element


def _item(document: Any, block: Block, numbering: dict[int, int]) -> None:
    level = min(block.level, DEEPEST_LIST - 1)
    base = "List Number" if block.number else "List Bullet"
    paragraph = document.add_paragraph(style=base if level == 0 else f"{base} {level + 1}")
    for deeper in [each for each in numbering if each > level]:
        del numbering[deeper]
    if block.number:
        if level not in numbering:
            numbering[level] = _restarted(document, paragraph, block.number)
        properties = paragraph._p.get_or_add_pPr().get_or_add_numPr()
        properties.get_or_add_numId().val = numbering[level]
        properties.get_or_add_ilvl().val = 0
    _fill(paragraph, block.pieces)


def _restarted(document: Any, paragraph: Any, start: int) -> int:
    """A numbering of its own for a list, or Word would count on from the list before it."""
    numbers = document.part.numbering_part.element
    used = paragraph.style.element.pPr.numPr.numId.val
    original = next(each for each in numbers.num_lst if each.numId == used)
    number = numbers.add_num(original.abstractNumId.val)
    number.add_lvlOverride(ilvl=0).add_startOverride(start)
    return int(number.numId)


def _code(document: Any, text: str) -> None:
    paragraph = document.add_paragraph()
    paragraph.paragraph_format.left_indent = Cm(0.5)
    run = paragraph.add_run(text)
    run.font.name, run.font.size = "Courier New", Pt(9)


def _table(document: Any, block: Block) -> None:
    table = document.add_table(rows=0, cols=len(block.rows[0]), style="Table Grid")
    for number, row in enumerate(block.rows):
        for cell, pieces in zip(table.add_row().cells, row, strict=True):
            _fill(cell.paragraphs[0], tuple(piece._replace(bold=True) for piece in pieces) if number == 0 else pieces)
    head = table.rows[0]._tr.get_or_add_trPr()
    repeat = OxmlElement("w:tblHeader")  # again on each page that the table reaches
    repeat.set(qn("w:val"), "true")
    head.append(repeat)
    document.add_paragraph()


def _rule(paragraph: Any) -> None:
    border = OxmlElement("w:pBdr")
    line = OxmlElement("w:bottom")
    for key, value in (("val", "single"), ("sz", "6"), ("space", "1"), ("color", "999999")):
        line.set(qn(f"w:{key}"), value)
    border.append(line)
    paragraph._p.get_or_add_pPr().append(copy.deepcopy(border))


def _picture(document: Any, block: Block, report: Report, folder: Path, width: Any) -> None:
    path = folder / block.target
    if "://" in block.target or not path.is_file():
        report.lose("pictures that are not here")
        document.add_paragraph(f"[{block.text or block.target}]")
        return
    picture = document.add_picture(str(path))
    if picture.width > width:
        picture.width, picture.height = width, int(picture.height * width / picture.width)
    picture._inline.docPr.set("descr", block.text)
