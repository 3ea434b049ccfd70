"""An empty 16:9 presentation with the theme in its master, so that people can restyle it. For build.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lxml import etree
from pptx import Presentation
from pptx.enum.dml import MSO_THEME_COLOR
from pptx.opc.constants import RELATIONSHIP_TYPE
from pptx.util import Emu, Inches

if TYPE_CHECKING:
    from theme import Theme

WIDTH, HEIGHT = 13.333, 7.5
"""Of a slide, in inches; so are all places below: left, top, width, height."""
MARGIN = 0.75
INNER = WIDTH - 2 * MARGIN
TITLE = (MARGIN, 0.5, INNER, 1.05)
BODY = (MARGIN, 1.8, INNER, 4.75)
SOURCE = (MARGIN, 6.62, INNER, 0.32)
FOOTER = (MARGIN, 7.0, 9.0, 0.3)
NUMBER = (WIDTH - MARGIN - 1.2, 7.0, 1.2, 0.3)
COVER_TITLE = (MARGIN + 0.25, 2.1, 10.6, 1.75)
COVER_TEXT = (MARGIN + 0.25, 4.1, 10.6, 2.1)
LAYOUTS = {"cover": 0, "content": 1, "only_title": 5}
"""Those of the package's own template that are kept, by what they are used for."""

_A = "http://schemas.openxmlformats.org/drawingml/2006/main"
_P = "http://schemas.openxmlformats.org/presentationml/2006/main"
_BAR = """<p:sp xmlns:p="{p}" xmlns:a="{a}"><p:nvSpPr><p:cNvPr id="{id}" name="Bar"/><p:cNvSpPr/>
<p:nvPr userDrawn="1"/></p:nvSpPr><p:spPr><a:xfrm><a:off x="{x}" y="{y}"/><a:ext cx="{w}" cy="{h}"/></a:xfrm>
<a:prstGeom prst="rect"><a:avLst/></a:prstGeom><a:solidFill><a:schemeClr val="{colour}"/></a:solidFill>
<a:ln><a:noFill/></a:ln></p:spPr></p:sp>"""


def empty_deck(look: Theme) -> Any:
    """A presentation without slides."""
    deck = Presentation()
    deck.slide_width, deck.slide_height = Inches(WIDTH), Inches(HEIGHT)
    _theme(deck.slide_master, look)
    _text_styles(deck.slide_master)
    kept = {name: deck.slide_layouts[at] for name, at in LAYOUTS.items()}
    for layout in list(deck.slide_layouts):
        if layout not in kept.values():
            deck.slide_layouts.remove(layout)
    _arrange(deck.slide_master, {"TITLE": TITLE, "BODY": BODY})
    _arrange(kept["cover"], {"CENTER_TITLE": COVER_TITLE, "SUBTITLE": COVER_TEXT})
    _arrange(kept["content"], {"TITLE": TITLE, "OBJECT": BODY})
    _arrange(kept["only_title"], {"TITLE": TITLE})
    kept["cover"].background.fill.solid()
    kept["cover"].background.fill.fore_color.theme_color = MSO_THEME_COLOR.TEXT_2
    _bar(kept["cover"], (MARGIN, 2.1, 0.09, 4.1))
    for name in ("content", "only_title"):
        _bar(kept[name], (0, 0.62, 0.14, 0.8))
    return deck


def put(shape: Any, place: tuple[float, float, float, float]) -> None:
    """Give the shape this place, in inches."""
    shape.left, shape.top, shape.width, shape.height = (Emu(int(Inches(each))) for each in place)


def _arrange(owner: Any, places: dict[str, tuple[float, float, float, float]]) -> None:
    own = {"FOOTER": FOOTER, "SLIDE_NUMBER": NUMBER}
    for shape in list(owner.placeholders):
        kind = shape.placeholder_format.type.name
        if kind == "DATE":
            shape._element.getparent().remove(shape._element)
        elif kind in places or kind in own:
            put(shape, (places | own)[kind])


def _theme(master: Any, look: Theme) -> None:
    part = master.part.part_related_by(RELATIONSHIP_TYPE.THEME)
    root = etree.fromstring(part.blob)
    scheme = root.find(f".//{{{_A}}}clrScheme")
    scheme.set("name", "Deck")
    for name, colour in look.scheme().items():
        slot = scheme.find(f"{{{_A}}}{name}")
        for child in list(slot):
            slot.remove(child)
        etree.SubElement(slot, f"{{{_A}}}srgbClr", val=colour)
    for kind, family in (("majorFont", look.heading_font), ("minorFont", look.body_font)):
        root.find(f".//{{{_A}}}{kind}/{{{_A}}}latin").set("typeface", family)
    part._blob = etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)


def _text_styles(master: Any) -> None:
    """Titles to the left, bold and of a size that leaves room for a sentence."""
    titles = master._element.find(f".//{{{_P}}}titleStyle/{{{_A}}}lvl1pPr")
    titles.set("algn", "l")
    titles.find(f"{{{_A}}}defRPr").set("sz", "2800")
    titles.find(f"{{{_A}}}defRPr").set("b", "1")
    for level, size in enumerate(("2000", "1800", "1600"), 1):
        style = master._element.find(f".//{{{_P}}}bodyStyle/{{{_A}}}lvl{level}pPr")
        style.find(f"{{{_A}}}defRPr").set("sz", size)


def _bar(layout: Any, place: tuple[float, float, float, float]) -> None:
    """In the layout, not on each slide: there it is decoration that no screen reader reads out."""
    x, y, w, h = (int(Inches(each)) for each in place)
    tree = layout.shapes._spTree
    number = 1 + max(int(each) for each in tree.xpath("//p:cNvPr/@id"))
    tree.insert(2, etree.fromstring(_BAR.format(p=_P, a=_A, id=number, x=x, y=y, w=w, h=h, colour="accent1")))
