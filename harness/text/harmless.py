"""Foreign text made harmless: what servers say of their tools and what their tools answer. Pure; used by checks.py and
results.py."""

from __future__ import annotations

import re

from harness.text.frames import neutral
from harness.text.lines import plain_text
from harness.text.plain import seen

_TEMPLATE = re.compile(
    r"<(?=\|)|<(?=\s*+/?\s*+(?:tool_(?:response|result|call)s?|function_(?:results?|calls?))\b)", re.I
)
"""What some models' chat templates are made of."""
_BLANKS = re.compile(r"\n{3,}")


def harmless(text: str) -> str:
    """Without terminal codes and unseen characters, and unable to end a result or open one of our blocks."""
    return neutral(_TEMPLATE.sub("&lt;", seen(plain_text(text))))


def described(text: str, limit: int) -> str:
    """A description as the model gets it: harmless, and no longer than `limit`."""
    text = _BLANKS.sub("\n\n", harmless(text)).strip()
    return text if len(text) <= limit else text[: limit - 1] + "…"


def line(text: str, limit: int = 120) -> str:
    """In one line, for logs and /status."""
    text = " ".join(harmless(text).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
