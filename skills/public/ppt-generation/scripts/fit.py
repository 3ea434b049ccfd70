"""How much room text takes: widths, line breaks, heights. An estimate from one font's measures, on the careful side."""

from __future__ import annotations

import importlib.util
import re
import unicodedata
from functools import cache
from pathlib import Path

from PIL import ImageFont

LINE = 1.2
"""Height of a line, in sizes of its font."""
_MEASURE = 100
_NARROWER = {"calibri": 0.86, "carlito": 0.86, "arial": 0.92, "helvetica": 0.92, "georgia": 0.94, "cambria": 0.88}
"""Than DejaVu Sans, whose measures are at hand everywhere."""
_CHINESE = ("NotoSansCJK*", "NotoSansSC*", "SourceHanSans*", "wqy-*", "DroidSansFallback*")


def factor(family: str) -> float:
    """What DejaVu's widths have to be multiplied with to be this font's; 0.95 of one that is not known."""
    return _NARROWER.get(family.lower(), 0.95)


def wide(char: str) -> bool:
    """Whether it takes a square, as Chinese and Japanese signs do; lines may break on both sides of it."""
    return unicodedata.east_asian_width(char) in "WF"


@cache
def font_file(*, bold: bool = False, chinese: bool = False) -> str:
    """A font of this machine to draw with; "" when there is none for Chinese."""
    if chinese:
        found = (path for pattern in _CHINESE for path in Path("/usr/share/fonts").rglob(pattern))
        return str(next((path for path in found if path.suffix in (".ttc", ".ttf", ".otf")), ""))
    home = importlib.util.find_spec("matplotlib")
    if home is None or home.origin is None:
        raise SystemExit("matplotlib is missing, whose fonts are measured: the sandbox's packages are not installed.")
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return str(Path(home.origin).parent / "mpl-data" / "fonts" / "ttf" / name)


@cache
def _advance(char: str, bold: bool) -> float:
    font = ImageFont.truetype(font_file(bold=bold), _MEASURE)
    return font.getlength(char) / _MEASURE


def width(text: str, size: float, *, family: str = "Calibri", bold: bool = False) -> float:
    """In the unit of `size`."""
    narrower = factor(family)
    return size * sum(1.0 if wide(char) else _advance(char, bold) * narrower for char in text)


def wrapped(text: str, size: float, room: float, *, family: str = "Calibri", bold: bool = False) -> list[str]:
    """The lines of a paragraph in a box that is `room` wide. A word that is wider than the box is cut."""
    lines: list[str] = []
    line = ""
    for piece in _pieces(text):
        if line and width((line + piece).rstrip(), size, family=family, bold=bold) > room:
            lines.append(line.rstrip())
            line = piece.lstrip()
        else:
            line += piece
        while len(line) > 1 and width(line.rstrip(), size, family=family, bold=bold) > room:
            keep = _fitting(line, size, room, family, bold)
            lines.append(line[:keep])
            line = line[keep:]
    return [*lines, line.rstrip()]


def _pieces(text: str) -> list[str]:
    """Between which a line may break."""
    return re.findall(
        r"[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60]|\S+?(?=[\u2e80-\ua4cf])|\S+\s*|\s+",
        text,
    ) or [""]


def _fitting(line: str, size: float, room: float, family: str, bold: bool) -> int:
    keep = 1
    while keep < len(line) and width(line[: keep + 1], size, family=family, bold=bold) <= room:
        keep += 1
    return keep


def height(texts: list[tuple[str, float]], room: float, *, family: str = "Calibri", bold: bool = False) -> float:
    """Of paragraphs of (text, size) in a box that is `room` wide, with half a line between them."""
    total = 0.0
    for text, size in texts:
        total += len(wrapped(text, size, room, family=family, bold=bold)) * size * LINE + size * 0.5
    return total - (texts[-1][1] * 0.5 if texts else 0)
