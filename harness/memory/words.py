"""Texts as sets of words, for comparing what was said with what is remembered: of scripts with blanks their words, of
others each pair of signs. Pure."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_WORDS = re.compile(r"[a-z0-9\u00c0-\u024f\u0370-\u052f]+|[^\W_]")


def words(text: str) -> Iterator[str]:
    """In order, folded; a sign that stands alone is a word of its own."""
    before = ""
    for found in _WORDS.findall(unicodedata.normalize("NFKC", text).casefold()):
        if len(found) > 1 or found.isascii():
            yield found
            before = ""
        else:
            yield before + found
            before = found


_EXACT = re.compile(r"(?<!\S)\S*?(?:[@\d]|://|www\.)\S*")
"""Addresses and numbers: one that is not there is another one, however much of the rest is the same."""


def is_among(part: str, whole: frozenset[str], least: float) -> bool:
    """Whether at least this share of a text is among these words, and each address and number in it."""
    exact = (word for piece in _EXACT.findall(part) for word in words(piece))
    return share(part, whole) >= least and all(word in whole for word in exact)


def share(part: str, whole: frozenset[str]) -> float:
    """How much of a text is among these words, 0 to 1; 0 of a text without any."""
    own = list(words(part))
    return sum(word in whole for word in own) / len(own) if own else 0.0
