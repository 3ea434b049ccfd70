"""Colours and fonts of a deck, and the arithmetic of contrast. Used by build.py, check.py and preview.py."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import Any

WHITE = "FFFFFF"
TEXT_CONTRAST, LARGE_CONTRAST = 4.5, 3.0
"""What WCAG 2.2 (1.4.3) asks of text, and of text from 18 pt, or bold from 14 pt."""


@dataclass(frozen=True)
class Theme:
    """Six hex digits each. deep: the background of title, section and closing slides. muted: captions and sources."""

    text: str
    deep: str
    light: str
    accent1: str
    accent2: str
    accent3: str
    accent4: str
    accent5: str
    muted: str
    heading_font: str = "Calibri"
    body_font: str = "Calibri"

    def on(self, background: str) -> str:
        """The name in the theme ("lt1" or "dk1") of what reads better on this colour."""
        return "lt1" if contrast(WHITE, background) >= contrast(self.text, background) else "dk1"

    def scheme(self) -> dict[str, str]:
        """As Office names the colours."""
        accents = {f"accent{n}": getattr(self, f"accent{n}") for n in range(1, 6)}
        base = {"dk1": self.text, "lt1": WHITE, "dk2": self.deep, "lt2": self.light}
        return base | accents | {"accent6": self.muted, "hlink": self.accent1, "folHlink": self.muted}


THEMES = {
    "slate": Theme("1F2933", "22303C", "EEF2F6", "1F6FB2", "C2571A", "2E7D5B", "7A4E9E", "B3892B", "5A6672"),
    "forest": Theme("1E2A24", "1F3D31", "EDF3EF", "2F7A55", "B5651D", "2A6F97", "8A5A83", "A68A1F", "56635C"),
    "plum": Theme("2B2230", "3A2447", "F4EFF6", "7B3F98", "C0533A", "2F7F86", "4A63B0", "A9812A", "665D6B"),
    "sand": Theme("33291F", "4A3728", "F7F2EA", "9A5B22", "2F6F73", "6B7F2A", "8C3F4D", "4E5F8A", "6B6157"),
    "mono": Theme("1A1A1A", "2B2B2B", "F0F0F0", "3D3D3D", "7A7A7A", "5C5C5C", "8C8C8C", "4C4C4C", "5E5E5E"),
}
DEFAULT = "slate"


def chosen(value: Any) -> tuple[Theme, list[str]]:
    """The theme of an outline's "theme": a name, or an object with "name" and colours or fonts of its own."""
    wanted = {"name": value} if isinstance(value, str) else value if isinstance(value, dict) else {}
    name = wanted.get("name", DEFAULT)
    problems = [] if name in THEMES else [f'theme: there is no "{name}"; there are {", ".join(THEMES)}']
    theme = THEMES.get(name, THEMES[DEFAULT])
    known = {field.name for field in fields(Theme)}
    for key, given in wanted.items():
        if key == "name":
            continue
        if key not in known:
            problems.append(f'theme: "{key}" is not known; there are name, {", ".join(sorted(known))}')
        elif key.endswith("_font"):
            theme = replace(theme, **{key: str(given)})
        elif re.fullmatch(r"#?[0-9A-Fa-f]{6}", str(given)):
            theme = replace(theme, **{key: str(given).lstrip("#").upper()})
        else:
            problems.append(f'theme: {key} has to be six hex digits such as "#1F6FB2", not "{given}"')
    return theme, problems + _faint(theme)


def _faint(theme: Theme) -> list[str]:
    """What could not be read in a deck with these colours."""
    pairs = (
        ("text", theme.text, WHITE, TEXT_CONTRAST),
        ("muted", theme.muted, WHITE, TEXT_CONTRAST),
        ("text on light", theme.text, theme.light, TEXT_CONTRAST),
        ("accent1", theme.accent1, WHITE, LARGE_CONTRAST),
    )
    return [
        f"theme: the contrast of {name} is {contrast(one, other):.1f}:1 and has to be {least}:1; take a darker colour"
        for name, one, other, least in pairs
        if contrast(one, other) < least
    ]


def contrast(one: str, other: str) -> float:
    """Of two colours in six hex digits, 1 to 21, as WCAG 2.2 defines it."""
    brighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
