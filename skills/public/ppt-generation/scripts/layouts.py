"""Draws the slides of an outline, one function for each layout. For build.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from charts import add_chart, add_table
from PIL import Image
from pptx.util import Inches
from template import BODY, COVER_TEXT, COVER_TITLE, LAYOUTS, SOURCE, TITLE, put
from writing import (
    BODY_SIZES,
    COVER_SIZES,
    TITLE_SIZES,
    Line,
    Page,
    Place,
    describe,
    footer,
    lines_of,
    notes,
    plain,
    small,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from theme import Theme

Slide = dict[str, Any]

COVERS = ("title", "section", "closing", "quote")
MARKS = '“”"'
GAP = 0.5
ASIDE = 3.9
"""Inches of the points beside a chart or picture."""


def draw(deck: Any, spec: Slide, look: Theme, *, language: str, foot: str, folder: Path) -> list[str]:
    """Adds a slide. folder: where its pictures are. The problems: what does not fit."""
    kind = spec["layout"]
    use = "cover" if kind in COVERS else "content" if kind in ("bullets",) else "only_title"
    page = Page(deck.slides.add_slide(_layout(deck, use)), look, language)
    if kind in COVERS:
        _cover(page, spec)
    else:
        write(page, page.slide.shapes.title, [Line(str(spec["title"]))], TITLE_SIZES, place=TITLE, middle=True)
        _BODIES[kind](page, spec, folder)
        if spec.get("source"):
            small(page, f"{spec['source']}", SOURCE, "Source")
        footer(page, foot, len(deck.slides))
    if spec.get("notes"):
        notes(page, str(spec["notes"]))
    return page.problems


def _layout(deck: Any, use: str) -> Any:
    """Kept ones stand in the order of their numbers in the package's template."""
    return deck.slide_layouts[sorted(LAYOUTS, key=LAYOUTS.__getitem__).index(use)]


def _cover(page: Page, spec: Slide) -> None:
    """Large text on the deep colour. A quote stands in the title's place, so that outlines and readers have it."""
    colour = "light" if page.look.on(page.look.deep) == "lt1" else "text"
    title = f"“{str(spec['quote']).strip(MARKS)}”" if spec["layout"] == "quote" else str(spec["title"])
    write(page, page.slide.shapes.title, [Line(title, colour=colour)], COVER_SIZES, place=COVER_TITLE, middle=True)
    below = page.slide.placeholders[1]
    points = lines_of(spec.get("points", []), colour)
    text = [Line(each, colour=colour) for each in _texts(spec)]
    if not points and not text:
        below._element.getparent().remove(below._element)
        return
    write(page, below, [*text, *points], BODY_SIZES, place=COVER_TEXT)
    for paragraph in below.text_frame.paragraphs:
        paragraph.alignment = None
    plain(below)


def _texts(spec: Slide) -> list[str]:
    by = f"— {spec['by']}" if spec.get("by") else ""
    return str(spec.get("subtitle") or spec.get("text") or by).splitlines()


def _bullets(page: Page, spec: Slide, folder: Path) -> None:
    write(page, page.slide.placeholders[1], lines_of(spec["points"]), BODY_SIZES, place=BODY)


def _two_columns(page: Page, spec: Slide, folder: Path) -> None:
    left, top, width, height = BODY
    half = (width - GAP) / 2
    for number, side in enumerate(("left", "right")):
        at = left + number * (half + GAP)
        heading = spec[side].get("heading", "")
        if heading:
            box = page.box((at, top, half, 0.55), f"Heading {side}")
            bold = Line(heading, bold=True, colour="accent")
            write(page, box, [bold], (22, 20, 18), place=(at, top, half, 0.55))
        room = (at, top + 0.65, half, height - 0.65) if heading else (at, top, half, height)
        _listed(page, spec[side]["points"], room, f"Points {side}", BODY_SIZES[1:])


def _listed(page: Page, points: list[Any], place: Place, name: str, sizes: tuple[int, ...]) -> None:
    """A box with a list: real bullets, so that a second line begins where the first does."""
    box = page.box(place, name)
    write(page, box, lines_of(points), sizes, place=place)
    for paragraph in box.text_frame.paragraphs:
        properties = paragraph._p.get_or_add_pPr()
        indent = int(Inches(0.28))
        properties.set("marL", str(indent * (paragraph.level + 1)))
        properties.set("indent", str(-indent))
        tag = "{http://schemas.openxmlformats.org/drawingml/2006/main}buChar"
        properties.append(properties.makeelement(tag, {"char": "•" if paragraph.level == 0 else "–"}))


def _beside(page: Page, spec: Slide) -> Place:
    """Points at the right, if there are any, and the room that is left."""
    left, top, width, height = BODY
    if not spec.get("points"):
        return BODY
    place = (left + width - ASIDE, top, ASIDE, height)
    _listed(page, spec["points"], place, "Points", BODY_SIZES[2:])
    return (left, top, width - ASIDE - GAP, height)


def _table(page: Page, spec: Slide, folder: Path) -> None:
    add_table(page, spec["columns"], spec["rows"], BODY, spec.get("alt", ""))


def _chart(page: Page, spec: Slide, folder: Path) -> None:
    place = _beside(page, spec)
    unit = spec["chart"].get("unit")
    if unit:
        small(page, str(unit), (place[0], place[1] - 0.05, place[2], 0.32), "Unit")
        place = (place[0], place[1] + 0.3, place[2], place[3] - 0.3)
    add_chart(page, spec["chart"], place, spec.get("alt", ""))


def _picture(page: Page, spec: Slide, folder: Path) -> None:
    left, top, width, height = _beside(page, spec)
    if spec.get("caption"):
        height -= 0.4
        small(page, spec["caption"], (left, top + height + 0.05, width, 0.35), "Caption")
    path = folder / spec["picture"]
    with Image.open(path) as image:
        shape = image.width / image.height
        if image.width < width * 72:
            page.problems.append(
                f"the picture {path.name} has only {image.width} pixels for {width:.1f} inches: take a larger one"
            )
    own = min(width, height * shape)
    picture = page.slide.shapes.add_picture(str(path), 0, 0)
    put(picture, (left + (width - own) / 2, top + (height - own / shape) / 2, own, own / shape))
    describe(picture, "Picture", spec["alt"])


def _numbers(page: Page, spec: Slide, folder: Path) -> None:
    left, top, width, _ = BODY
    count = len(spec["numbers"])
    share = (width - GAP * (count - 1)) / count
    for number, each in enumerate(spec["numbers"]):
        at = left + number * (share + GAP)
        value = page.box((at, top + 0.9, share, 1.2), f"Number {number + 1}")
        line = Line(str(each["value"]), bold=True, colour="accent")
        write(page, value, [line], (60, 54, 48, 40, 32), place=(at, top + 0.9, share, 1.2), middle=True)
        label = page.box((at, top + 2.2, share, 1.5), f"Label {number + 1}")
        write(page, label, [Line(str(each["label"]))], (20, 18, 16), place=(at, top + 2.2, share, 1.5))


_BODIES = {
    "bullets": _bullets,
    "two_columns": _two_columns,
    "table": _table,
    "chart": _chart,
    "picture": _picture,
    "numbers": _numbers,
}
