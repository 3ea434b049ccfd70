"""Looks a deck over before delivery: python3 check.py deck.pptx. Exit code 1 when something has to be put right."""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fit
from outline import words
from pptx import Presentation
from pptx.exc import PackageNotFoundError
from reading import Palette, Paragraph, all_shapes, alt_text, is_footer, is_title, notes_of, paragraphs
from theme import LARGE_CONTRAST, TEXT_CONTRAST, contrast

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_POINTS, MOST_WORDS, MOST_SLIDE_WORDS, LONGEST_TITLE = 8, 22, 90, 110
SMALLEST, SMALLEST_LABEL = 14, 10
INCH = 914400
MOST_OVERLAP = 0.15
SLACK = 0.06
"""Inches by which things may stand over: rounding is no mistake."""


@dataclass(frozen=True)
class Finding:
    """level: "error" has to be put right, "warning" has to be looked at. slide 0: the whole deck."""

    level: str
    slide: int
    text: str


def findings(deck: Any) -> list[Finding]:
    """All there is to say about a presentation."""
    palette = Palette(deck)
    found: list[Finding] = []
    titles: dict[str, int] = {}
    for number, slide in enumerate(deck.slides, 1):
        found += [Finding(level, number, text) for level, text in _slide(slide, deck, palette)]
        title = _title(slide)
        if title and title in titles:
            found.append(Finding("warning", number, f'has the title of slide {titles[title]}: "{title}"'))
        titles.setdefault(title, number)
    if not len(deck.slides):
        found.append(Finding("error", 0, "it has no slides"))
    return found


def _title(slide: Any) -> str:
    shape = slide.shapes.title
    return " ".join(shape.text_frame.text.split()) if shape is not None else ""


def _slide(slide: Any, deck: Any, palette: Palette) -> Iterator[tuple[str, str]]:
    title = _title(slide)
    if not title:
        yield "error", "has no title: outlines and screen readers have nothing to call it"
    elif len(title) > LONGEST_TITLE:
        yield "warning", f"has a title of {len(title)} characters; say it in {LONGEST_TITLE}"
    if not notes_of(slide):
        yield "warning", "has no speaker notes"
    background = palette.background(slide)
    total = 0
    for shape in all_shapes(slide.shapes):
        yield from _place(shape, deck)
        yield from _described(shape)
        if shape.has_text_frame and not is_footer(shape):
            yield from _text(shape, palette, palette.fill(shape) or background)
            total += words(shape.text_frame.text)
        elif getattr(shape, "has_table", False) and shape.has_table:
            yield from _table(shape, palette)
    yield from _overlaps(slide)
    if total > MOST_SLIDE_WORDS:
        yield "warning", f"has {total} words; what is read aloud anyway belongs into the notes ({MOST_SLIDE_WORDS})"


def _place(shape: Any, deck: Any) -> Iterator[tuple[str, str]]:
    if shape.left is None or shape.width is None:
        return
    slack = SLACK * INCH
    right, below = shape.left + shape.width - deck.slide_width, shape.top + shape.height - deck.slide_height
    if min(shape.left, shape.top) < -slack or max(right, below) > slack:
        yield "error", f'"{shape.name}" stands over the edge of the slide'


def _overlaps(slide: Any) -> Iterator[tuple[str, str]]:
    """Texts, tables, charts and pictures that lie on each other; a text on a picture may be meant."""
    filled = [shape for shape in slide.shapes if shape.width and shape.height and _shows(shape)]
    for at, one in enumerate(filled):
        for other in filled[at + 1 :]:
            wide = min(one.left + one.width, other.left + other.width) - max(one.left, other.left)
            high = min(one.top + one.height, other.top + other.height) - max(one.top, other.top)
            least = min(one.width * one.height, other.width * other.height)
            if wide > 0 and high > 0 and wide * high > MOST_OVERLAP * least:
                yield "warning", f'"{one.name}" and "{other.name}" lie on each other'


def _shows(shape: Any) -> bool:
    """Whether somebody reads or looks at it: no lines, no coloured areas."""
    if shape.has_text_frame:
        return bool(shape.text_frame.text.strip()) and not is_footer(shape)
    return shape.has_table or shape.has_chart or hasattr(shape, "image")


def _described(shape: Any) -> Iterator[tuple[str, str]]:
    kind = shape.shape_type.name if shape.shape_type is not None else ""
    shown = kind in ("PICTURE", "LINKED_PICTURE") or getattr(shape, "has_chart", False)
    said = re.sub(r"^\S+\.\w{3,4}$", "", alt_text(shape))  # programs put the file's name there
    if (shown or getattr(shape, "has_table", False)) and not said:
        yield "error", f'"{shape.name}" has no alternative text: say in a sentence what it shows'


def _text(shape: Any, palette: Palette, background: str) -> Iterator[tuple[str, str]]:
    if not shape.text_frame.text.strip():
        if shape.is_placeholder and not is_title(shape):  # of the title it was said already
            yield "error", f'"{shape.name}" is empty: a placeholder that says "click to add text" to whoever edits'
        return
    texts = paragraphs(shape, palette)
    over = overflow(shape, texts, palette.family)
    if over > 0:
        yield "error", f'the text of "{shape.name}" is about {over:.0%} higher than its box: shorten or split it'
    points = [each for each in texts if each.bullet and each.text.strip()]
    if len(points) > MOST_POINTS:
        yield "warning", f'"{shape.name}" has {len(points)} points; nobody keeps more than {MOST_POINTS}'
    for each in points:
        if words(each.text) > MOST_WORDS:
            yield "warning", f'"{each.text[:40]}..." has {words(each.text)} words; say it in {MOST_WORDS}'
    yield from _readable(texts, background, shape.name, SMALLEST_LABEL if not points else SMALLEST)


def _readable(texts: list[Paragraph], background: str, name: str, smallest: float) -> Iterator[tuple[str, str]]:
    for each in texts:
        if not each.text.strip():
            continue
        if each.size < smallest:
            yield "warning", f'"{each.text[:30]}" in "{name}" has {each.size:g} pt; {smallest} are the least'
        large = each.size >= 18 or (each.bold and each.size >= 14)
        least = LARGE_CONTRAST if large else TEXT_CONTRAST
        has = contrast(each.colour, background)
        if has < least:
            yield "error", f'"{each.text[:30]}" in "{name}" has a contrast of {has:.1f}:1, and needs {least}:1'


def overflow(shape: Any, texts: list[Paragraph], family: str) -> float:
    """By what share of its box the text is too high; 0 when it fits, or when the box grows with its text."""
    frame = shape.text_frame
    if shape.width is None or (frame.auto_size is not None and frame.auto_size.name != "NONE"):
        return 0.0
    needed = sum(
        len(_lines(each, shape, family)) * each.size * fit.LINE + (each.size * 0.4 if at < len(texts) - 1 else 0)
        for at, each in enumerate(texts)
    )
    room = (shape.height - (frame.margin_top or 0) - (frame.margin_bottom or 0)) / 12700
    return max(0.0, needed / room - 1 - SLACK) if room > 0 else 1.0


def _lines(paragraph: Paragraph, shape: Any, family: str) -> list[str]:
    frame = shape.text_frame
    if frame.word_wrap is False:
        return [paragraph.text]
    room = (shape.width - frame.margin_left - frame.margin_right) / 12700 - paragraph.indent * 72
    return fit.wrapped(paragraph.text, paragraph.size, max(room, 10), family=family, bold=paragraph.bold)


def _table(shape: Any, palette: Palette) -> Iterator[tuple[str, str]]:
    table = shape.table
    if len(table.rows) > 12 or len(table.columns) > 8:
        yield "warning", f'"{shape.name}" has {len(table.rows)} rows and {len(table.columns)} columns; nobody reads it'
    height = 0.0
    for row in table.rows:
        tallest = 0.0
        for at, cell in enumerate(row.cells):
            font = cell.text_frame.paragraphs[0].runs[0].font.size if cell.text_frame.paragraphs[0].runs else None
            size = font.pt if font else 18.0
            room = (table.columns[at].width - cell.margin_left - cell.margin_right) / 12700
            lines = len(fit.wrapped(cell.text, size, max(room, 10), family=palette.family))
            tallest = max(tallest, lines * size * fit.LINE + 6)
        height += max(tallest, row.height / 12700)
    if shape.top / 12700 + height > 7.0 * 72:
        yield "error", f'"{shape.name}" grows to {height / 72:.1f} inches when its text wraps: fewer rows or words'


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks a .pptx: fit, contrast, alternative texts, notes, crowding.")
    parser.add_argument("deck", type=Path)
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args()
    try:
        deck = Presentation(str(options.deck))
    except (PackageNotFoundError, KeyError, ValueError) as error:
        print(f"{options.deck} cannot be opened as a .pptx: {error}", file=sys.stderr)
        return 2
    found = findings(deck)
    errors = sum(each.level == "error" for each in found)
    if options.json:
        print(json.dumps({"slides": len(deck.slides), "findings": [asdict(each) for each in found]}, indent=1))
        return 1 if errors else 0
    for each in sorted(found, key=lambda one: (one.level != "error", one.slide)):
        print(f"{each.level}: {f'slide {each.slide}' if each.slide else 'the deck'}: {each.text}")
    print(f"{len(deck.slides)} slides, {errors} errors, {len(found) - errors} warnings.")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
