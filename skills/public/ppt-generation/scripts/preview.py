"""Pictures of a deck to look at: python3 preview.py deck.pptx -o preview.png. Approximate: no PowerPoint here."""

from __future__ import annotations

import argparse
import io
import sys
from functools import cache
from pathlib import Path
from typing import Any

import fit
from drawn_charts import draw_chart
from PIL import Image, ImageDraw, ImageFont, UnidentifiedImageError
from pptx import Presentation
from pptx.enum.text import MSO_ANCHOR
from pptx.exc import PackageNotFoundError
from reading import Palette, Paragraph, all_shapes, is_footer, is_title, paragraphs, sign

INCH = 914400
GAP, LABEL = 14, 22
"""Pixels between the slides of a sheet, and of the number above each."""
PER_SHEET = 12


@cache
def _font(path: str, size: float) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(path, size)


class Painter:
    """Draws slides at so many pixels an inch."""

    def __init__(self, deck: Any, dots: float) -> None:
        self.deck, self.dots = deck, dots
        self.palette = Palette(deck)
        self.without_font = False
        """Some signs could not be drawn, and are boxes: not a fault of the deck."""

    def slide(self, slide: Any) -> Image.Image:
        size = (self._px(self.deck.slide_width), self._px(self.deck.slide_height))
        image = Image.new("RGB", size, "#" + self.palette.background(slide))
        canvas = ImageDraw.Draw(image)
        for shape in slide.slide_layout.shapes:
            if not shape.is_placeholder:
                self._filled(canvas, shape)
        for shape in all_shapes(slide.shapes):
            if shape.left is not None and shape.width is not None:
                self._shape(image, canvas, shape)
        return image

    def _shape(self, image: Image.Image, canvas: ImageDraw.ImageDraw, shape: Any) -> None:
        if getattr(shape, "has_chart", False):
            chart = draw_chart(shape.chart, self.palette, self._size(shape), self.dots)
            image.paste(chart, (self._px(shape.left), self._px(shape.top)))
        elif getattr(shape, "has_table", False):
            self._table(canvas, shape)
        elif hasattr(shape, "image"):
            self._picture(image, shape)
        elif shape.has_text_frame:
            self._filled(canvas, shape)
            self._text(canvas, shape)

    def _px(self, emu: int) -> int:
        return round(emu / INCH * self.dots)

    def _size(self, shape: Any) -> tuple[int, int]:
        return max(1, self._px(shape.width)), max(1, self._px(shape.height))

    def _filled(self, canvas: ImageDraw.ImageDraw, shape: Any) -> None:
        colour = self.palette.fill(shape)
        if colour:
            left, top = self._px(shape.left), self._px(shape.top)
            width, height = self._size(shape)
            canvas.rectangle((left, top, left + width, top + height), fill="#" + colour)

    def _picture(self, image: Image.Image, shape: Any) -> None:
        left, top = self._px(shape.left), self._px(shape.top)
        try:
            picture = Image.open(io.BytesIO(shape.image.blob)).convert("RGBA").resize(self._size(shape))
        except (UnidentifiedImageError, OSError):  # EMF and the like
            ImageDraw.Draw(image).rectangle((left, top, left + 40, top + 40), outline="red")
            return
        image.paste(picture, (left, top), picture)

    def _text(self, canvas: ImageDraw.ImageDraw, shape: Any) -> None:
        frame = shape.text_frame
        left = shape.left / INCH + frame.margin_left / INCH
        room = shape.width / INCH - (frame.margin_left + frame.margin_right) / INCH
        drawn: list[tuple[Paragraph, list[str]]] = []
        for each in paragraphs(shape, self.palette):
            inner = max((room - each.indent) * 72, 10)
            lines = fit.wrapped(each.text, each.size, inner, family=self.palette.family, bold=each.bold)
            drawn.append((each, lines if frame.word_wrap is not False else [each.text]))
        height = sum(len(lines) * each.size * fit.LINE + each.size * 0.4 for each, lines in drawn) / 72
        top = shape.top / INCH + frame.margin_top / INCH
        free = shape.height / INCH - height - frame.margin_top / INCH
        anchor = frame.vertical_anchor
        if anchor == MSO_ANCHOR.MIDDLE or (anchor is None and (is_title(shape) or is_footer(shape))):
            top += max(0, free / 2)
        for each, lines in drawn:
            top = self._paragraph(canvas, each, lines, (left, top, room))

    def _paragraph(
        self, canvas: ImageDraw.ImageDraw, each: Paragraph, lines: list[str], place: tuple[float, float, float]
    ) -> float:
        """Gives where the next one begins."""
        left, top, room = place
        for number, line in enumerate(lines):
            wide = fit.width(line, each.size, family=self.palette.family, bold=each.bold) / 72
            free = room - each.indent - wide
            at = left + each.indent + (free / 2 if each.centred else free if each.right else 0)
            if number == 0 and each.bullet and each.text.strip():
                self._line(canvas, each.bullet, each, (left + each.indent - 0.26, top))
            self._line(canvas, line, each, (at, top))
            top += each.size * fit.LINE / 72
        return top + each.size * 0.4 / 72

    def _line(self, canvas: ImageDraw.ImageDraw, text: str, look: Paragraph, at: tuple[float, float]) -> None:
        """Sign by sign, each as wide as it was measured."""
        x, y = at[0] * self.dots, at[1] * self.dots
        unit = look.size / 72 * self.dots
        for char in text:
            chinese = fit.wide(char)
            path = fit.font_file(bold=look.bold, chinese=chinese)
            self.without_font = self.without_font or (chinese and not path)
            size = unit if chinese else unit * fit.factor(self.palette.family)
            if path:
                canvas.text(
                    (x, y + (unit - size) * 0.8), char, font=_font(path, max(1, round(size, 1))), fill=sign(look.colour)
                )
            else:
                canvas.rectangle((x + 1, y + 2, x + unit * 0.85, y + unit), outline=sign(look.colour))
            x += fit.width(char, unit, family=self.palette.family, bold=look.bold)

    def _table(self, canvas: ImageDraw.ImageDraw, shape: Any) -> None:
        top = shape.top / INCH
        for row in shape.table.rows:
            left = shape.left / INCH
            height = row.height / INCH
            for at, cell in enumerate(row.cells):
                width = shape.table.columns[at].width / INCH
                spot = [each * self.dots for each in (left, top, left + width, top + height)]
                canvas.rectangle(spot, fill="#" + (self.palette.fill(cell) or "FFFFFF"), outline="white")
                self._cell(canvas, cell, shape, (left, top, width, height))
                left += width
            top += height

    def _cell(
        self, canvas: ImageDraw.ImageDraw, cell: Any, shape: Any, place: tuple[float, float, float, float]
    ) -> None:
        cell.is_placeholder = False
        for each in paragraphs(cell, self.palette):
            lines = fit.wrapped(each.text, each.size, (place[2] - 0.2) * 72, family=self.palette.family, bold=each.bold)
            high = len(lines) * each.size * fit.LINE / 72
            self._paragraph(canvas, each, lines, (place[0] + 0.1, place[1] + (place[3] - high) / 2, place[2] - 0.2))


def sheet(images: list[Image.Image], first: int, columns: int) -> Image.Image:
    """Slides side by side with their numbers."""
    wide, high = images[0].size
    rows = -(-len(images) // columns)
    whole = Image.new("RGB", (columns * (wide + GAP) + GAP, rows * (high + GAP + LABEL) + GAP), "#888888")
    canvas = ImageDraw.Draw(whole)
    font = ImageFont.truetype(fit.font_file(bold=True), 15)
    for number, image in enumerate(images):
        x = GAP + number % columns * (wide + GAP)
        y = GAP + number // columns * (high + GAP + LABEL)
        canvas.text((x, y), str(first + number), font=font, fill="white")
        whole.paste(image, (x, y + LABEL))
    return whole


def main() -> int:
    options = _options()
    try:
        deck = Presentation(str(options.deck))
    except (PackageNotFoundError, KeyError, ValueError) as error:
        print(f"{options.deck} cannot be opened as a .pptx: {error}", file=sys.stderr)
        return 2
    wanted = [number for number in range(1, len(deck.slides) + 1) if options.slide in (None, number)]
    if not wanted:
        wish = f"no slide {options.slide}" if options.slide else "nothing to draw"
        print(f"There is {wish}; the deck has {len(deck.slides)} slides.", file=sys.stderr)
        return 2
    painter = Painter(deck, 96 if options.slide else 1600 / options.columns / (deck.slide_width / INCH))
    images = [painter.slide(deck.slides[number - 1]) for number in wanted]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(images), PER_SHEET):
        part = images[start : start + PER_SHEET]
        path = options.output if not start else options.output.with_stem(f"{options.output.stem}-{start + 1}")
        sheet(part, wanted[start], min(options.columns, len(part))).save(path)
        print(f"{path}: slides {wanted[start]} to {wanted[start] + len(part) - 1}")
    if painter.without_font:
        print("Chinese and Japanese signs are drawn as boxes: there is no font for them here. The deck has them whole.")
    print("An approximation for layout, not for fonts: PowerPoint draws it finer.")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Draws the slides of a .pptx onto PNG sheets, for view_image.")
    parser.add_argument("deck", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True, help="a .png in the workspace")
    parser.add_argument("--slide", type=int, help="only this one, larger")
    parser.add_argument("--columns", type=int, default=3, choices=range(1, 6), help="slides side by side")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
