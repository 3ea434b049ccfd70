"""Makes untrusted text safe to show: no control characters, no direction overrides, no unsafe links.

Called by every adapter before it renders anything.
"""

from __future__ import annotations

import re
import unicodedata

REPLACEMENT = "\ufffd"
_SUSPICIOUS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_NEWLINES = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# Colours and cursor moves that tools print, removed whole: the rest of a sequence would be visible as garbage.
_TERMINAL_SEQUENCES = re.compile(r"\x1b\[[0-9;?]{0,32}[A-Za-z]")
_OVERRIDES = re.compile("[\u202a-\u202e\u2066-\u2069]")
_CONTROLS = re.compile("[\x01-\x08\x0e-\x1f\x7f-\x9f]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_SAFE_LINK = re.compile(r"https?://[^\s/?#]|mailto:[^\s@]+@|tel:\+?[0-9]", re.IGNORECASE)
_MAX_LINK = 2048
# Characters that are categorized as visible but have no glyph: the Hangul fillers and the blank Braille cell.
_INVISIBLE = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f")


def sanitize(text: str) -> str:
    """The text without anything that could break or mislead a reader.

    NUL and lone surrogates become U+FFFD; other control characters, terminal sequences and characters that override
    the writing direction are removed; every kind of line end becomes \\n. Right-to-left and zero-width text stays.
    """
    if not _SUSPICIOUS.search(text):
        return text
    if _SURROGATES.search(text):
        # Two adjacent halves become the character that they encode.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = _NEWLINES.sub("\n", _TERMINAL_SEQUENCES.sub("", text))
    return _CONTROLS.sub("", _OVERRIDES.sub("", text.replace("\x00", REPLACEMENT)))


def one_line(text: str) -> str:
    """The text sanitized, with every run of whitespace collapsed into one space."""
    return " ".join(sanitize(text).split())


def seen_line(text: str) -> str:
    """The text as one line, "" if nothing of it would be visible."""
    line = one_line(text)
    return "" if is_blank(line) else line


def seen_lines(text: str, most: int) -> str:
    """The visible lines of the text; only the last one if they have more than `most` characters."""
    lines = [line for line in map(seen_line, text.split("\n")) if line]
    whole = "\n".join(lines)
    return whole if len(whole) <= most else lines[-1]


def is_safe_link(url: str) -> bool:
    """Whether people may be sent to a URL: only http, https, mailto and tel, at most 2048 characters."""
    return len(url) <= _MAX_LINK and _SAFE_LINK.match(url) is not None


def is_blank(text: str) -> bool:
    """Whether nothing of the text would be visible: only whitespace, control and zero-width characters."""
    return not any(unicodedata.category(char)[0] not in "ZC" and char not in _INVISIBLE for char in text)
