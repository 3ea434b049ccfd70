"""Keeps known secrets out of chats and logs: one Redactor, used by delivery on every text and by every log handler."""

from __future__ import annotations

import base64
import json
import logging
import re
from collections import deque
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Iterable

MARK = "[redacted]"
SHORTEST = 8
"""Shorter values are not worth the damage that replacing them everywhere would do."""

MOST_LEARNT = 100
"""Secrets that `add` keeps; beyond that the oldest, which are no longer valid, are forgotten."""

SIGN = 6
"""Characters that the end of a text must share with the start of a secret to be held back."""


class Redactor:
    """Replaces each known secret by a mark, also where it is URL-quoted, base64-encoded or JSON-escaped.

    longest: of all forms, in characters.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = frozenset(secrets)
        self._learnt: deque[str] = deque(maxlen=MOST_LEARNT)
        self._prepare()

    def add(self, secret: str) -> None:
        """Replace this secret too: a token obtained at run time."""
        if secret not in self._secrets and secret not in self._learnt:
            self._learnt.append(secret)
            self._prepare()

    def know(self, secrets: Iterable[str]) -> None:
        """Replace these secrets too: those of a changed config."""
        self._secrets |= frozenset(secrets)
        self._prepare()

    def _prepare(self) -> None:
        known = (secret for secret in (*self._secrets, *self._learnt) if len(secret) >= SHORTEST)
        forms = sorted({form for secret in known for form in _forms(secret)}, key=len)
        self.longest = len(forms[-1]) if forms else 0
        self._forms = forms
        self._pattern = re.compile("|".join(re.escape(form) for form in reversed(forms))) if forms else None
        self._starts = {form[:length] for form in forms for length in range(1, SIGN)}
        self._heads = sorted({_bare(max(form[:SIGN].split(), key=len, default="")) for form in forms})

    def __call__(self, text: str) -> str:
        return self._pattern.sub(MARK, text) if self._pattern else text

    def may_begin_in(self, text: str) -> bool:
        """Whether the text without its ASCII punctuation and spaces, which all formatting consists of, contains the
        start of a secret. Otherwise no secret, nor a start of one that would be held back, can be read in it."""
        bare = _bare(text)
        return any(head in bare for head in self._heads)

    def without_beginning(self, text: str) -> str:
        """The growing text without an end that may be the start of a secret, which the next token would complete."""
        tail = text[-self.longest :] if self.longest else ""
        held = 0
        for form in self._forms:
            place = tail.find(form[:SIGN])
            while place >= 0 and not form.startswith(tail[place:]):
                place = tail.find(form[:SIGN], place + 1)
            held = max(held, len(tail) - place if place >= 0 else 0)
        return text[: len(text) - held]

    def begun_in(self, text: str) -> int:
        """The number of characters at the end of a growing text that may be the start of a secret, although they are
        too few for `without_beginning`."""
        return max((length for length in range(1, SIGN) if text[-length:] in self._starts), default=0)


_SIGNS = str.maketrans("", "", "".join(char for char in map(chr, range(128)) if not char.isalnum()))


def _bare(text: str) -> str:
    return text.translate(_SIGNS)


def _forms(secret: str) -> Iterable[str]:
    yield secret
    raw = secret.encode("utf-8", "surrogatepass")
    yield quote(raw, safe="")
    yield quote_plus(raw)
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    for before in range(3):  # bytes that precede the secret in its first group, as in `user:secret`
        # The first and last characters of base64 depend on the secret's neighbours; those in between are its own.
        own = slice(-(-before * 8 // 6), (before + len(raw)) * 8 // 6)
        encoded = base64.b64encode(bytes(before) + raw + bytes(2)).decode()
        yield encoded[own]
        yield encoded.translate(_URL_SAFE)[own]


_URL_SAFE = str.maketrans("+/", "-_")


class RedactingFormatter(logging.Formatter):
    """Formats a record (traceback included), then redacts: nothing that another filter missed can pass."""

    def __init__(self, inner: logging.Formatter, redact: Redactor) -> None:
        super().__init__()
        self._inner = inner
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(self._inner.format(record))
