"""Small charts for chats. Importing this module loads Pillow: do so in a thread.

Digits are the only text: Pillow's font has no Chinese, and the message contains the words. The picture has its own
background, so it looks the same on light and dark screens.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, HEIGHT = 800, 400
MARGIN, TOP, BOTTOM = 32, 56, 52
"""Margins: left and right; above the highest bar, for its number; below the bars, for the days."""
BAR_SHARE = 0.58
"""Width of a bar as a share of a day's width."""
RADIUS = 8
GROUND, LINE, INK, FAINT = "#F5F7FA", "#CBD2DC", "#1F2733", "#5B6675"
STRONG, LIGHT = "#2F6FDE", "#A9C6F7"


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar. label: below it. value: its height; number: the text above it. part: of the value, drawn lighter, from
    the bottom."""

    label: str
    value: int
    number: str
    part: int = 0


def bars_picture(bars: Sequence[Bar]) -> bytes:
    """The bars side by side, as a PNG. Raises ValueError when there are none."""
    if not bars:
        raise ValueError("a chart needs bars")
    picture = Image.new("RGB", (WIDTH, HEIGHT), GROUND)
    draw = ImageDraw.Draw(picture)
    large, small = ImageFont.load_default(26), ImageFont.load_default(22)
    floor, tallest = HEIGHT - BOTTOM, max(bar.value for bar in bars)
    each = (WIDTH - 2 * MARGIN) / len(bars)
    for place, bar in enumerate(bars):
        middle = MARGIN + each * (place + 0.5)
        top = floor
        if bar.value > 0:
            top = floor - max(3, round((floor - TOP) * bar.value / tallest))
            _draw_bar(draw, bar, middle, each * BAR_SHARE / 2, top, floor)
        font, ink = (large, INK) if bar.value else (small, FAINT)
        draw.text((middle, top - 8), bar.number, font=font, fill=ink, anchor="mb")
        draw.text((middle, floor + 12), bar.label, font=small, fill=FAINT, anchor="mt")
    draw.line((MARGIN, floor, WIDTH - MARGIN, floor), fill=LINE, width=2)
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return file.getvalue()


def _draw_bar(draw: ImageDraw.ImageDraw, bar: Bar, middle: float, half: float, top: int, floor: int) -> None:
    left, right = round(middle - half), round(middle + half)
    draw.rounded_rectangle((left, top, right, floor), RADIUS, fill=STRONG, corners=(True, True, False, False))
    border = floor - round((floor - top) * min(bar.part, bar.value) / bar.value)
    if border < floor:
        rounded = (border <= top,) * 2 + (False, False)
        draw.rounded_rectangle((left, border, right, floor), RADIUS, fill=LIGHT, corners=rounded)
