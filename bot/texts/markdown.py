"""Markdown that shows a text as it is, for what was not written as Markdown. For delivery, buttons and notices."""

from __future__ import annotations

import re

ACTIVE = re.compile(r"([!#$&()*+\-./<=>@\[\\\]^_`{|}~]|:(?=\S))")
"""What may mean something in Markdown, or make an address of a text. Escaping more makes its source hard to read."""
INDENTATION = re.compile(r"^[ \t]+", re.MULTILINE)


def plain(text: str) -> str:
    """Markdown that shows `text` as it is: what may be active is escaped, no indentation left."""
    visible = INDENTATION.sub(lambda found: "\u00a0" * len(found.group()), text)
    return ACTIVE.sub(r"\\\1", visible)


def inline(text: str) -> str:
    """Foreign text inside backquotes: short, on one line, without backquotes of its own."""
    return " ".join(text.replace("`", "'").split())[:80]
