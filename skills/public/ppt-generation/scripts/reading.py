"""A finished deck as its viewers get it: texts with size and colour, alternative texts. For check.py and preview.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lxml import etree
from pptx.enum.dml import MSO_COLOR_TYPE
from pptx.enum.shapes import MSO_SHAPE_TYPE
from pptx.opc.constants import RELATIONSHIP_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_NAMES = {"text_1": "dk1", "background_1": "lt1", "text_2": "dk2", "background_2": "lt2", "hyperlink": "hlink"}
TITLE_SIZE, BODY_SIZE = 28.0, 18.0
"""Points of text whose size nobody set."""
TITLES = ("TITLE", "CENTER_TITLE", "VERTICAL_TITLE")


@dataclass(frozen=True)
class Paragraph:
    """size in points. indent: inches before its text. bullet: what stands before it, or ""."""

    text: str
    size: float
    bold: bool
    colour: str
    indent: float
    bullet: str
    centred: bool = False
    right: bool = False


class Palette:
    """The colours of a deck's theme."""

    def __init__(self, deck: Any) -> None:
        root = etree.fromstring(deck.slide_master.part.part_related_by(RELATIONSHIP_TYPE.THEME).blob)
        self._colours = {}
        for slot in root.find(f".//{_A}clrScheme"):
            colour = slot[0]
            self._colours[slot.tag.removeprefix(_A)] = colour.get("lastClr") or colour.get("val", "000000")
        family = root.find(f".//{_A}minorFont/{_A}latin")
        self.family = family.get("typeface", "Calibri") if family is not None else "Calibri"

    def of(self, colour: Any, otherwise: str) -> str:
        """Six hex digits; `otherwise` where the colour is inherited. Tints are taken as the colour itself."""
        if colour is None or colour.type is None:
            return otherwise
        if colour.type == MSO_COLOR_TYPE.RGB:
            return str(colour.rgb)
        if colour.type == MSO_COLOR_TYPE.SCHEME:
            name = colour.theme_color.name.lower()
            return self._colours.get(_NAMES.get(name, name.replace("_", "")), otherwise)
        return otherwise

    def named(self, slot: str) -> str:
        return self._colours[slot]

    def fill(self, shape: Any) -> str:
        """The colour of a shape's solid fill, or "" when one sees through it."""
        fill = getattr(shape, "fill", None)
        return self.of(fill.fore_color, "") if fill is not None and fill.type == 1 else ""

    def background(self, slide: Any) -> str:
        """Of the slide, its layout or its master; white where none is set."""
        for owner in (slide, slide.slide_layout, slide.slide_layout.slide_master):
            own = owner._element.find(".//{http://schemas.openxmlformats.org/presentationml/2006/main}bgPr")
            if own is not None and owner.background.fill.type == 1:
                return self.of(owner.background.fill.fore_color, "FFFFFF")
        return self.named("lt1")


def all_shapes(shapes: Any) -> Iterator[Any]:
    """Those in groups too."""
    for shape in shapes:
        if shape.shape_type == MSO_SHAPE_TYPE.GROUP:
            yield from all_shapes(shape.shapes)
        else:
            yield shape


def is_title(shape: Any) -> bool:
    return bool(shape.is_placeholder) and shape.placeholder_format.type.name in TITLES


def is_footer(shape: Any) -> bool:
    return bool(shape.is_placeholder) and shape.placeholder_format.type.name in ("FOOTER", "SLIDE_NUMBER", "DATE")


def alt_text(shape: Any) -> str:
    return str(shape._element.xpath(".//p:cNvPr")[0].get("descr", "")).strip()


def notes_of(slide: Any) -> str:
    return slide.notes_slide.notes_text_frame.text.strip() if slide.has_notes_slide else ""


def paragraphs(shape: Any, palette: Palette) -> list[Paragraph]:
    """Of a text frame; empty ones too, which take room."""
    return [_paragraph(each, shape, palette) for each in shape.text_frame.paragraphs]


def _paragraph(paragraph: Any, shape: Any, palette: Palette) -> Paragraph:
    run = paragraph.runs[0] if paragraph.runs else None
    font = run.font if run is not None else paragraph.font
    size = font.size or paragraph.font.size
    title = is_title(shape)
    points = size.pt if size else 12.0 if is_footer(shape) else TITLE_SIZE if title else BODY_SIZE
    properties = paragraph._p.pPr
    bullet = _bullet(properties, shape)
    left = properties.get("marL") if properties is not None else None
    indent = int(left) / 914400 if left is not None else 0.375 * (paragraph.level + 1) if bullet else 0.0
    alignment = paragraph.alignment.name if paragraph.alignment is not None else ""
    if shape.is_placeholder and shape.placeholder_format.type.name == "SLIDE_NUMBER":
        alignment = "RIGHT"
    return Paragraph(
        text="".join(str(each) for each in paragraph._p.xpath("./a:r/a:t/text() | ./a:fld/a:t/text()")),
        size=points,
        bold=bool(font.bold) or (title and font.bold is None),
        colour=palette.of(font.color, palette.named("dk1")) if font.color is not None else palette.named("dk1"),
        indent=indent,
        bullet=bullet,
        centred=alignment == "CENTER",
        right=alignment == "RIGHT",
    )


def _bullet(properties: Any, shape: Any) -> str:
    if properties is not None:
        sign = properties.find(f"{_A}buChar")
        if sign is not None:
            return str(sign.get("char"))
        if properties.find(f"{_A}buNone") is not None:
            return ""
    listed = shape.is_placeholder and shape.placeholder_format.type.name in ("OBJECT", "BODY", "VERTICAL_BODY")
    return "•" if listed else ""


def sign(paragraph: Any) -> tuple[int, int, int]:
    """For drawing: the colour as three numbers."""
    return tuple(int(paragraph[at : at + 2], 16) for at in (0, 2, 4))  # type: ignore[return-value]
