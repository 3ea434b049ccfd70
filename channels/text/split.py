"""Measures and cuts text in the unit that a platform counts, never inside a user-perceived character."""

from __future__ import annotations

import unicodedata

from channels.capabilities import TextUnit

_ZERO_WIDTH_JOINER = "\u200d"
_EMOJI_PRESENTATION = "\ufe0f"
# How far back a cut may move to keep a cluster whole; a longer one (text with piled-up marks) is cut anyway.
_LONGEST_CLUSTER = 64


def utf16_length(text: str) -> int:
    """The number of UTF-16 code units; the text must not contain lone surrogates."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def fitting(text: str, limit: int, unit: TextUnit) -> int:
    """How many characters from the beginning of the text fit into `limit` units."""
    match unit:
        case TextUnit.CHARACTERS:
            return min(len(text), limit)
        case TextUnit.UTF16:
            return len(text[:limit].encode("utf-16-le")[: 2 * limit].decode("utf-16-le", "ignore"))
        case TextUnit.UTF8_BYTES:
            return len(text[:limit].encode()[:limit].decode(errors="ignore"))
        case _:
            raise ValueError(f"text alone cannot be measured in {unit}")


def _is_regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _extends(char: str) -> bool:
    """Whether it extends the preceding character: marks, joiners, skin tones, the tags of subdivision flags."""
    if char < "\u0300":
        return False
    return (
        char in "\u200c\u200d"
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
        or unicodedata.category(char)[0] == "M"
    )


def _joins_hangul(before: str, after: str) -> bool:
    if "\u1160" <= after <= "\u11ff":
        return "\u1100" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7a3"
    return "\u1100" <= after <= "\u115f" and "\u1100" <= before <= "\u115f"


def is_border(text: str, index: int) -> bool:
    """Whether a cut before text[index] keeps all characters whole (UAX 29, without its rarest rules)."""
    if index <= 0 or index >= len(text):
        return True
    before, after = text[index - 1], text[index]
    if before == _ZERO_WIDTH_JOINER or _extends(after) or _joins_hangul(before, after):
        return False
    if _is_regional(before) and _is_regional(after):
        start = index
        while start > 0 and _is_regional(text[start - 1]):
            start -= 1
        return (index - start) % 2 == 0
    return not (before == "\r" and after == "\n")


def safe_cut(text: str, index: int) -> int:
    """The nearest place at or before `index` where the text may be cut; at least 1 for a positive index."""
    for candidate in range(index, max(0, index - _LONGEST_CLUSTER), -1):
        if is_border(text, candidate):
            return candidate
    return index


def cut(text: str, limit: int, unit: TextUnit) -> int:
    """Where to cut so that text[:cut] fits into `limit` units: after a line, else a word, else a character.

    The end of a line or word counts only in the second half, so that no piece is needlessly short.
    """
    end = fitting(text, limit, unit)
    if end >= len(text):
        return len(text)
    for separator in ("\n\n", "\n", " "):
        found = text.rfind(separator, end // 2, end)
        if found > 0:
            return found + len(separator)
    return max(1, safe_cut(text, end))


def shortened(text: str, limit: int, unit: TextUnit = TextUnit.CHARACTERS) -> str:
    """The text, or its beginning with an ellipsis if it has more than `limit` units."""
    end = fitting(text, limit, unit)
    return text if end == len(text) else text[: safe_cut(text, end - 1)] + "…"


def split_text(text: str, limit: int, unit: TextUnit) -> tuple[str, ...]:
    """Split plain text into pieces of at most `limit` units."""
    pieces: list[str] = []
    while text:
        end = cut(text, limit, unit)
        pieces.append(text[:end])
        text = text[end:]
    return tuple(pieces)


def display_width(text: str) -> int:
    """Columns in a monospaced font: wide East Asian characters and emoji are 2, marks and joiners 0."""
    if text.isascii():
        return len(text)
    width = 0
    joined = False
    for char in text:
        if char == _EMOJI_PRESENTATION:
            width += 1
        elif char == _ZERO_WIDTH_JOINER:
            joined = True
            continue
        elif not joined and not _extends(char) and unicodedata.category(char) != "Cf":
            width += 2 if unicodedata.east_asian_width(char) in "WF" else 1
        joined = False
    return width


def clusters(text: str) -> list[str]:
    """The user-perceived characters of the text."""
    if text.isascii() and "\r" not in text:
        return list(text)
    starts = [index for index in range(len(text)) if is_border(text, index)]
    return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
