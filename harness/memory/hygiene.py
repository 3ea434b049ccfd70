"""Secrets are never remembered: found by what stands before them, their pattern, their checksum or their entropy.

Pure; used before anything is queued (bot/memory), and on everything that is kept (merge.py).
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING

from harness.memory.secret_patterns import (
    BEHIND_HINTS,
    CHINESE_ID,
    CODE_FIRST,
    DIGEST,
    DIGITS,
    HINTS,
    IBAN,
    IN_URL,
    KEYS,
    LARGE,
    MOST_TURNS,
    NAMES_DIGEST,
    NO_SECRETS,
    POD,
    PRIVATE_KEY,
    SAID,
    TOKEN,
    TURNS,
    UUID,
    WITH_NAMES,
    WORD,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

LEFT_OUT = "[left out]"
LONGEST_LOOKED_AT = 20_000
"""Characters; nobody writes more, and what is behind is left out of what is kept."""

_NEVER_SEEN = (
    "\u00ad\u034f\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\U000e0000-\U000e01ef"
)
_UNSEEN = re.compile(f"[{_NEVER_SEEN}\u200c\u200d\ufe00-\ufe0f]")
_HIDING = re.compile(f"[\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f{_NEVER_SEEN}]")
"""Signs in which a text can be hidden from people, not those that join letters or pictures."""

LONGEST_BEFORE = 60
"""Characters before a digest that may say that it is one."""


def plain(text: str) -> str:
    """What is looked at and kept: no signs that cannot be seen, no letters in another dress."""
    return _UNSEEN.sub("", unicodedata.normalize("NFKC", text[:LONGEST_LOOKED_AT]))


def without_unseen(text: str) -> str:
    """As it is kept: people see all that the model reads of it."""
    return _HIDING.sub("", text)


def has_secret(text: str) -> bool:
    """Whether something in it must not be kept."""
    return next(_found(plain(text)), None) is not None


def without_secrets(text: str) -> str:
    """The text with a mark in the place of each; as it was written where there is none."""
    looked_at = plain(text)
    spans = sorted(_found(looked_at))
    if not spans:
        return text[:LONGEST_LOOKED_AT]
    kept, place = [], 0
    for start, end in spans:
        if start >= place:
            kept += [looked_at[place:start], LEFT_OUT]
        place = max(place, end)
    return "".join([*kept, looked_at[place:]])


def _found(text: str) -> Iterator[tuple[int, int]]:
    """Where secrets are; they may overlap. What was left out before is none."""
    text = text.replace(LEFT_OUT, "\n" * len(LEFT_OUT))
    for pattern in (PRIVATE_KEY, KEYS, IN_URL):
        yield from (found.span() for found in pattern.finditer(text))
    lowered = text.lower()
    hinted = any(hint in lowered for hint in HINTS)
    for pattern in (*WITH_NAMES, *(BEHIND_HINTS if hinted else ())):
        yield from (found.span(1) for found in pattern.finditer(text))
    for found in CODE_FIRST.finditer(text):
        yield found.span(1) if found.group(1) else found.span(2)
    if hinted:
        yield from (found.span(1) for found in SAID.finditer(text) if _may_be_one(found, text))
    yield from (found.span() for found in DIGITS.finditer(text) if _is_card(found.group()))
    yield from (found.span() for found in IBAN.finditer(text) if _is_iban(found.group()))
    yield from (found.span() for found in CHINESE_ID.finditer(text) if _is_chinese_id(found.group()))
    for found in TOKEN.finditer(text):
        before = text[max(found.start() - LONGEST_BEFORE, 0) : found.start()]
        digest = DIGEST.match(found.group()) and NAMES_DIGEST.search(before)
        if not digest and _is_random(found.group()):
            yield found.span()


def _may_be_one(found: re.Match[str], text: str) -> bool:
    """Of "the password is ...": not a plain word that says how it is, or the first of a sentence."""
    value = found.group(1).rstrip(".,;:!?)").lower()
    if WORD.fullmatch(value) is None:
        return len(value) >= 3
    rest = text[found.start(1) + len(value) :].lstrip(" ")
    return value not in NO_SECRETS and (not rest or rest[0] in ".,;!?\n)。,;!?")


def _is_card(number: str) -> bool:
    digits = [int(sign) for sign in number if sign.isdigit()]
    if not 13 <= len(digits) <= 19 or digits[0] not in (2, 3, 4, 5, 6) or len(set(digits)) < 2:
        return False
    doubled = [digit if place % 2 == 0 else sum(divmod(2 * digit, 10)) for place, digit in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def _is_iban(text: str) -> bool:
    """ISO 13616: mod 97 of the rearranged number is 1."""
    plain_text = re.sub("[ -]", "", text).upper()
    if not 15 <= len(plain_text) <= 34:
        return False
    return int("".join(str(int(sign, 36)) for sign in plain_text[4:] + plain_text[:4])) % 97 == 1


def _is_chinese_id(text: str) -> bool:
    """GB 11643: weighted sum of 17 digits, mod 11."""
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    total = sum(int(digit) * weight for digit, weight in zip(text[:17], weights, strict=True))
    return "10X98765432"[total % 11] == text[17].upper()


def _is_random(token: str) -> bool:
    """Letters and digits mixed as no word, date, path or name of a file mixes them."""
    if UUID.match(token) or POD.match(token):
        return False
    if LARGE.match(token) and len(TURNS.findall(token)) > MOST_TURNS:
        return True
    pieces = [piece for piece in re.split(r"[-_/=+]", token) if piece]
    mixed = [piece for piece in pieces if len(piece) >= 8 and len(re.findall(r"\d+", piece)) >= 2]
    mixed = [piece for piece in mixed if re.search(r"[A-Za-z]", piece)]
    return any(_entropy(piece) >= (2.8 if len(piece) < 20 else 3.0) for piece in mixed) and _entropy(token) >= 3.2


def _entropy(text: str) -> float:
    """Bits per character."""
    counts = Counter(text)
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts.values())
