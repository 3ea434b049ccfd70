"""Keeps known secrets out of chats and logs: one Redactor, used by delivery on every text and by every log handler."""

from __future__ import annotations

import base64
import logging
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

MARK = "[redacted]"
SHORTEST = 8
"""Shorter values are no secrets worth the damage that replacing them everywhere would do."""


class Redactor:
    """Replaces each known secret, also URL-quoted and in base64, by a mark. longest: of all forms, in characters."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = sorted({form for secret in secrets if len(secret) >= SHORTEST for form in _forms(secret)}, key=len)
        self.longest = len(forms[-1]) if forms else 0
        self._pattern = re.compile("|".join(re.escape(form) for form in reversed(forms))) if forms else None

    def __call__(self, text: str) -> str:
        return self._pattern.sub(MARK, text) if self._pattern else text


def _forms(secret: str) -> Iterable[str]:
    yield secret
    yield quote(secret, safe="")
    # The last group of a base64 text depends on what follows the secret, so only its stable part is searched.
    encoded = base64.b64encode(secret.encode("utf-8", "surrogatepass")).decode()
    yield encoded[: len(secret.encode("utf-8", "surrogatepass")) // 3 * 4]


class RedactingFormatter(logging.Formatter):
    """Formats a record (traceback included), then redacts: nothing that another filter missed can pass."""

    def __init__(self, inner: logging.Formatter, redact: Redactor) -> None:
        super().__init__()
        self._inner = inner
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(self._inner.format(record))
