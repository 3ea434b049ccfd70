"""CSS as far as it can be judged without a browser: rules, custom properties, colours, contrast. For check_page.py."""

from __future__ import annotations

import re
from dataclasses import dataclass

TEXT, LARGE = 4.5, 3.0
"""Contrast that WCAG 2.2 (1.4.3) asks of text, and of large text."""
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_AT = re.compile(r"@(?:media|supports|layer|container)[^{]*\{")
_VARIABLE = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,\s*([^()]*))?\)")
_HEX = re.compile(r"#([0-9a-fA-F]{3,8})\b")
_RGB = re.compile(r"rgba?\(\s*([\d.]+)[,\s]+([\d.]+)[,\s]+([\d.]+)(?:\s*[,/]\s*([\d.]+%?))?\s*\)")
NAMES = {"white": "ffffff", "black": "000000", "red": "ff0000", "blue": "0000ff", "green": "008000", "gray": "808080"}
NAMES |= {"grey": "808080", "silver": "c0c0c0", "navy": "000080", "orange": "ffa500", "yellow": "ffff00"}

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Rule:
    """selector: as it is written. values: property -> value, custom properties filled in."""

    selector: str
    values: dict[str, str]


def rules(css: str) -> list[Rule]:
    """In order; those within @media and the like too."""
    flat = _AT.sub("", _COMMENT.sub("", css))
    parsed = [(selector.strip(), _values(body)) for selector, body in _RULE.findall(flat)]
    custom: dict[str, str] = {}
    for selector, values in parsed:
        if selector in (":root", "html", "body", ":root, :host"):
            for key, value in values.items():
                if key.startswith("--"):
                    custom.setdefault(key, value)
    return [
        Rule(selector, {key: _filled(value, custom) for key, value in values.items()})
        for selector, values in parsed
        if not selector.startswith("@")
    ]


def _values(body: str) -> dict[str, str]:
    pairs = (part.split(":", 1) for part in body.split(";") if ":" in part)
    return {key.strip().lower(): value.replace("!important", "").strip() for key, value in pairs}


def _filled(value: str, custom: dict[str, str], depth: int = 4) -> str:
    for _ in range(depth):
        found = _VARIABLE.search(value)
        if found is None:
            return value
        value = value.replace(found[0], custom.get(found[1], found[2] or ""))
    return value


def colour(value: str) -> Colour | None:
    """Of the first colour in a value; None where there is none, or one sees through it."""
    value = value.strip().lower()
    if "gradient" in value or "url(" in value:
        return None
    found = _HEX.search(value)
    if found is not None:
        digits = found[1]
        digits = "".join(each * 2 for each in digits) if len(digits) in (3, 4) else digits
        if len(digits) not in (6, 8) or (len(digits) == 8 and digits[6:] != "ff"):
            return None
        return _of(digits)
    rgb = _RGB.search(value)
    if rgb is not None:
        whole = rgb[4] in (None, "1", "1.0", "100%")
        return (round(float(rgb[1])), round(float(rgb[2])), round(float(rgb[3]))) if whole else None
    name = next((each for each in value.split() if each in NAMES), "")
    return _of(NAMES[name]) if name else None


def _of(digits: str) -> Colour:
    return int(digits[0:2], 16), int(digits[2:4], 16), int(digits[4:6], 16)


def contrast(one: Colour, other: Colour) -> float:
    """1 to 21."""
    brighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def _luminance(parts: Colour) -> float:
    shares = [part / 255 for part in parts]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def pixels(value: str) -> float | None:
    """Of "14px", "0.8rem", "80%"; None of what depends on more."""
    found = re.fullmatch(r"([\d.]+)(px|rem|em|%|pt)", value.strip().lower())
    if found is None:
        return None
    return float(found[1]) * {"px": 1, "rem": 16, "em": 16, "%": 0.16, "pt": 4 / 3}[found[2]]
