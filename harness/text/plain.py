"""Text fit to be kept and sent, whoever wrote it. Light to import."""

from __future__ import annotations

import re
import unicodedata

_HIDDEN = frozenset({"Cf", "Co", "Cs"})
_UNSEEN = _HIDDEN | {"Cc"}
_NEVER_DRAWN = re.compile("[\u2065\ufdd0-\ufdef\ufff0-\ufff8\ufffe\uffff\U000e0000-\U000e0fff]")
"""Of the characters that Unicode has not given a meaning, as far as Python knows; others are seen: newer emoji."""
_JOINS = frozenset("\u200c\u200d")
"""Between letters of some scripts and in pictures made of several signs."""


def clean_text(text: str) -> str:
    """Text that every store and wire format takes: no NUL, no lone surrogates."""
    if text.isascii():
        return text.replace("\0", "") if "\0" in text else text
    return text.replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def seen(text: str) -> str:
    """Only characters that a reader would see; hidden ones (tags, zero width, direction) carry hidden orders."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char for char in text if char in "\n\t" or not _is_among(char, _UNSEEN))


def readable(text: str) -> str:
    """What people and programs wrote, as it is seen: without signs that hide something or turn its direction, but with
    those that join letters of some scripts and the parts of a picture, where they stand between such."""
    if text.isascii():
        return text
    return "".join(
        char
        for before, char, after in zip(" " + text, text, text[1:] + " ", strict=False)
        if not _is_among(char, _HIDDEN) or (char in _JOINS and not before.isascii() and not after.isascii())
    )


def _is_among(char: str, kinds: frozenset[str]) -> bool:
    kind = unicodedata.category(char)
    return kind in kinds or (kind == "Cn" and _NEVER_DRAWN.match(char) is not None)
