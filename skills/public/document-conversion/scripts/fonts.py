"""The fonts of a PDF: those that matplotlib brings, so that it looks the same everywhere. For to_pdf.py."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import matplotlib
from fontTools.ttLib import TTFont
from matplotlib.font_manager import FontProperties
from PIL import ImageFont

if TYPE_CHECKING:
    from collections.abc import Callable

_FOLDER = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
_MEASURE = 100
_SQUARES = "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60"
_PIECES = re.compile(rf"\n|[{_SQUARES}]|[^\s{_SQUARES}]+[ \t]*|[ \t]+")


class Face(NamedTuple):
    bold: bool = False
    italic: bool = False
    mono: bool = False


def _file(face: Face) -> Path:
    family = "DejaVuSansMono" if face.mono else "DejaVuSans"
    look = ("Bold" if face.bold else "") + ("Oblique" if face.italic else "")
    return _FOLDER / (f"{family}-{look}.ttf" if look else f"{family}.ttf")


def faces(face: Face, size: float) -> FontProperties:
    """For matplotlib."""
    return FontProperties(fname=str(_file(face)), size=size)


@cache
def _advance(char: str, face: Face) -> float:
    return ImageFont.truetype(str(_file(face)), _MEASURE).getlength(char) / _MEASURE


def width(text: str, face: Face, size: float) -> float:
    """In points."""
    return size * sum(_advance(char, face) for char in text)


@cache
def _signs() -> frozenset[int]:
    return frozenset(TTFont(str(_file(Face()))).getBestCmap())


def missing_signs(text: str) -> set[str]:
    """What would be a box in the PDF."""
    known = _signs()
    return {char for char in text if ord(char) not in known and not char.isspace() and char.isprintable()}


def split_words(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Between which a line may break; with the spaces behind them. What fits no line is cut."""
    words: list[str] = []
    for piece in _PIECES.findall(text):
        while piece != "\n" and len(piece) > 1 and not fits(piece.rstrip()):
            keep = 1
            while keep < len(piece) and fits(piece[: keep + 1]):
                keep += 1
            words.append(piece[:keep])
            piece = piece[keep:]
        words.append(piece)
    return words
