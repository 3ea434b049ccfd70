"""What Word files need and python-docx has no words for: fields, bookmarks, links, shades; used by _docx.py."""

from __future__ import annotations

import re
from typing import Any

from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.shared import RGBColor

LINK = RGBColor(0x1F, 0x5F, 0xA8)


def element(tag: str, **attributes: str) -> Any:
    """An element of WordprocessingML."""
    made = OxmlElement(tag)
    for name, value in attributes.items():
        made.set(qn(f"w:{name}"), value)
    return made


def anchor(name: str) -> str:
    """A bookmark's name: letters, digits and _, at most 40 (Word opens no file with others)."""
    return re.sub(r"\W", "_", name)[:40]


def bookmark(paragraph: Any, name: str, number: int) -> None:
    """Around a whole paragraph. number: distinct in the file."""
    start = element("w:bookmarkStart", id=str(number), name=anchor(name))
    place = 1 if paragraph._p.pPr is not None else 0
    paragraph._p.insert(place, start)
    paragraph._p.append(element("w:bookmarkEnd", id=str(number)))


def hyperlink(
    paragraph: Any, target: str, text: str, *, bold: bool = False, raised: bool = False, look: Any = LINK
) -> None:
    """To an address, or with # to a bookmark. look: its colour; None: like the text around it."""
    made = OxmlElement("w:hyperlink")
    if target.startswith("#"):
        made.set(qn("w:anchor"), anchor(target[1:]))
    else:
        made.set(qn("r:id"), paragraph.part.relate_to(target, RELATIONSHIP_TYPE.HYPERLINK, is_external=True))
    run = paragraph.add_run(text)
    run.bold = bold or None
    run.font.superscript = raised or None
    if look is not None:
        run.font.color.rgb = look
    made.append(run._r)
    paragraph._p.append(made)


def field(
    paragraph: Any, code: str, shown: str = "", *, bold: bool = False, open_only: bool = False, close_only: bool = False
) -> None:
    """A field with what it shows until Word counts anew; open_only, close_only: the ends of a long one."""
    if not close_only:
        paragraph.add_run()._r.append(element("w:fldChar", fldCharType="begin"))
        instruction = element("w:instrText")
        instruction.set(qn("xml:space"), "preserve")
        instruction.text = f" {code} "
        paragraph.add_run()._r.append(instruction)
        paragraph.add_run()._r.append(element("w:fldChar", fldCharType="separate"))
    if shown:
        paragraph.add_run(shown).bold = bold or None
    if not open_only:
        paragraph.add_run()._r.append(element("w:fldChar", fldCharType="end"))


def cell_shade(cell: Any, color: str) -> None:
    """Behind a table's cell."""
    cell._tc.get_or_add_tcPr().append(element("w:shd", val="clear", color="auto", fill=color))


def repeat_row(row: Any) -> None:
    """A table's head, again on each page."""
    row._tr.get_or_add_trPr().append(element("w:tblHeader", val="true"))


def keep_with_next(paragraph: Any) -> None:
    """On the same page as what follows."""
    paragraph.paragraph_format.keep_with_next = True


def style_fonts(style: Any, latin: str, eastern: str) -> None:
    """A style's fonts, for both kinds of script; templates name fonts of a theme, which would win."""
    style.font.name = latin
    fonts = style.element.get_or_add_rPr().get_or_add_rFonts()
    for name in ("asciiTheme", "hAnsiTheme", "eastAsiaTheme", "cstheme"):
        fonts.attrib.pop(qn(f"w:{name}"), None)
    fonts.set(qn("w:eastAsia"), eastern)


def language(style: Any, tag: str) -> None:
    """What the spelling checker takes the text for."""
    properties = style.element.get_or_add_rPr()
    for found in properties.findall(qn("w:lang")):
        properties.remove(found)
    made = element("w:lang", val=tag)
    made.set(qn("w:eastAsia"), tag if tag.startswith("zh") else "zh-CN")
    properties.append(made)
