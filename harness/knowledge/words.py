"""Words of a text as both databases index them, including Chinese, Japanese and Korean. Pure.

A language without blanks is indexed by its pairs of characters, so that a word of two is found, which SQLite's trigrams
would miss. Everything beyond ASCII is encoded in digits: so neither database's notion of letters, languages or the
server's locale matters, and stemming affects only English.
"""

from __future__ import annotations

import re
import unicodedata

MOST_ASKED = 64
"""Words of a question that are searched for."""
LONGEST_WORD = 40
"""Characters; a longer word is data, and indexed by its beginning."""
_RUN = re.compile(r"[^\W_]+")
_DENSE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_PART = re.compile(f"[{_DENSE}]+|[^{_DENSE}]+")
_IS_DENSE = re.compile(f"[{_DENSE}]")
_COMMON = """
a about an and any are as at be been but by can could did do does for from had has have how i if in into is it its
may me my no not of on or our shall should so some than that the their them then there these they this those to us
was we were what when where which who whom whose why will with would you your
"""
_STOP = frozenset(_COMMON.split())
"""English stop words."""


def words_of(text: str) -> list[str]:
    """All words of a text in order, as they are indexed; only ASCII letters and digits."""
    return [word for part in _parts(text) for word in _indexed(part)]


def asked_words(question: str) -> list[str]:
    """The distinct words that passages are searched by. One that ends in `*` is a prefix."""
    parts = [part for part in _parts(question) if part not in _STOP] or list(_parts(question))
    found: dict[str, None] = {}
    for part in parts:
        if _IS_DENSE.match(part) and len(part) == 1:
            found[f"{_digits(part)}*"] = None
        elif _IS_DENSE.match(part):
            found.update(dict.fromkeys(_digits(part[at : at + 2]) for at in range(len(part) - 1)))
        else:
            found.update(dict.fromkeys(_indexed(part)))
    return list(found)[:MOST_ASKED]


def _parts(text: str) -> list[str]:
    """Words, and runs of characters in a language without blanks."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [part for run in _RUN.findall(folded) for part in _PART.findall(run)]


def _indexed(part: str) -> list[str]:
    if _IS_DENSE.match(part):
        # The last character separately too, so that every single one is found as the beginning of a word.
        return [_digits(part[at : at + 2]) for at in range(len(part))]
    plain = part if part.isascii() else _without_marks(part)
    plain = plain[:LONGEST_WORD]
    return [plain if plain.isascii() else _digits(plain)] if plain else []


def _without_marks(word: str) -> str:
    """é as e, ü as u."""
    apart = unicodedata.normalize("NFD", word)
    return unicodedata.normalize("NFC", "".join(each for each in apart if not unicodedata.combining(each)))


def _digits(characters: str) -> str:
    return "q" + "".join(f"{ord(each):06d}" for each in characters)
