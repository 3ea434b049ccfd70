"""Text, alternative texts, notes and footers on a slide; sizes are chosen so that the text fits. For layouts.py."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import fit
from outline import text_of
from pptx.enum.dml import MSO_THEME_COLOR
from pptx.enum.text import MSO_ANCHOR, MSO_AUTO_SIZE
from pptx.util import Inches, Pt
from template import put

if TYPE_CHECKING:
    from theme import Theme

Place = tuple[float, float, float, float]

TITLE_SIZES = (28, 26, 24)
COVER_SIZES = (44, 40, 36, 32)
BODY_SIZES = (24, 22, 20, 18, 16)
SMALL = 12
INSET = 0.1
"""Inches between a box and its text, left and right; half of it above and below."""
COLOURS = {
    "text": MSO_THEME_COLOR.TEXT_1,
    "light": MSO_THEME_COLOR.BACKGROUND_1,
    "accent": MSO_THEME_COLOR.ACCENT_1,
    "muted": MSO_THEME_COLOR.ACCENT_6,
}


@dataclass
class Page:
    """A slide that is being made. problems: what does not fit; the deck is not written then."""

    slide: Any
    look: Theme
    language: str
    problems: list[str] = field(default_factory=list)

    def box(self, place: Place, name: str) -> Any:
        shape = self.slide.shapes.add_textbox(*(Inches(each) for each in place))
        shape.name = name
        return shape


@dataclass(frozen=True)
class Line:
    """A paragraph. smaller: points below the size of the box. level: of the list, 0 outermost."""

    text: str
    level: int = 0
    smaller: int = 0
    bold: bool = False
    colour: str = "text"


def lines_of(points: list[Any], colour: str = "text") -> list[Line]:
    """A list's points, with those below them."""
    found = []
    for point in points:
        text, below = text_of(point)
        found.append(Line(text, colour=colour))
        found += [Line(each, level=1, smaller=2, colour=colour) for each in below]
    return found


def write(
    page: Page, shape: Any, lines: list[Line], sizes: tuple[int, ...], *, place: Place, middle: bool = False
) -> None:
    """Fill a box with paragraphs in the largest size that fits; the smallest one and a problem if none does."""
    heading = shape.is_placeholder and shape.placeholder_format.type.name in ("TITLE", "CENTER_TITLE")
    family = page.look.heading_font if heading else page.look.body_font
    put(shape, place)
    size = next((each for each in sizes if _fits(lines, each, place, family)), 0)
    if not size:
        page.problems.append(
            f'the text that begins with "{lines[0].text[:30]}" does not fit at {sizes[-1]} pt: shorten it, split the '
            "slide, or move details into the notes"
        )
    frame = shape.text_frame
    frame.word_wrap = True
    frame.auto_size = MSO_AUTO_SIZE.NONE
    frame.vertical_anchor = MSO_ANCHOR.MIDDLE if middle else MSO_ANCHOR.TOP
    for number, line in enumerate(lines):
        paragraph = frame.paragraphs[0] if number == 0 else frame.add_paragraph()
        _paragraph(page, paragraph, line, size or sizes[-1], heading)


def _paragraph(page: Page, paragraph: Any, line: Line, size: int, heading: bool) -> None:
    paragraph.level = line.level
    paragraph.space_after = Pt(size * 0.4)
    paragraph.line_spacing = 1.0
    run = paragraph.add_run()
    run.text = line.text
    run.font.size = Pt(size - line.smaller)
    run.font.bold = True if line.bold or heading else None
    run.font.color.theme_color = COLOURS[line.colour]
    run._r.get_or_add_rPr().set("lang", page.language)


def _fits(lines: list[Line], size: int, place: Place, family: str) -> bool:
    needed = 0.0
    for line in lines:
        own = size - line.smaller
        # A list's text begins a third of an inch in, and as much again for each level.
        room = (place[2] - 2 * INSET - 0.375 * (line.level + 1)) * 72
        count = len(fit.wrapped(line.text, own, room, family=family, bold=line.bold))
        needed += count * own * fit.LINE + size * 0.4
    return needed - size * 0.4 <= (place[3] - INSET) * 72


def plain(shape: Any) -> None:
    """No bullet before the paragraphs of a placeholder that would have one, and no indent."""
    for paragraph in shape.text_frame.paragraphs:
        properties = paragraph._p.get_or_add_pPr()
        properties.set("marL", "0")
        properties.set("indent", "0")
        if properties.find("{http://schemas.openxmlformats.org/drawingml/2006/main}buNone") is None:
            properties.append(
                properties.makeelement("{http://schemas.openxmlformats.org/drawingml/2006/main}buNone", {})
            )


def describe(shape: Any, name: str, alt: str) -> None:
    """The alternative text, which is read out in place of a picture."""
    shape.name = name
    shape._element.xpath(".//p:cNvPr")[0].set("descr", alt)


def small(page: Page, text: str, place: Place, name: str) -> None:
    """A caption or a source."""
    shape = page.box(place, name)
    write(page, shape, [Line(text, colour="muted")], (SMALL, 11, 10), place=place)


def notes(page: Page, text: str) -> None:
    """For the speaker."""
    page.slide.notes_slide.notes_text_frame.text = text


def footer(page: Page, text: str, number: int) -> None:
    """The slide's number, and a text if there is one, as the layout places them: PowerPoint copies neither."""
    for holder in page.slide.slide_layout.placeholders:
        kind = holder.placeholder_format.type.name
        if kind == "SLIDE_NUMBER" or (kind == "FOOTER" and text):
            shape = copy.deepcopy(holder._element)
            shape.xpath(".//p:cNvPr")[0].set("id", str(900 + holder.placeholder_format.idx))
            page.slide.shapes._spTree.append(shape)
            if kind == "FOOTER":
                page.slide.shapes[-1].text_frame.text = text
            else:  # a field: programs that do not count themselves show what stands in it
                for shown in shape.xpath(".//a:fld/a:t"):
                    shown.text = str(number)
