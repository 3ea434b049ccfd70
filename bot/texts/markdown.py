"""Markdown that shows text literally, for text that was not written as Markdown."""

from __future__ import annotations

import re

ACTIVE = re.compile(r"([!#$&)*+\-./<=>@\[\\\]^_`{|}~]|:(?=\S))")
"""Characters with a meaning in Markdown, or that turn text into a link. Escaping more makes the source hard to read, and an
escaped "(" begins a TeX formula."""
INDENTATION = re.compile(r"^[ \t]+", re.MULTILINE)


def plain(text: str) -> str:
    """Markdown that shows `text` literally: active characters are escaped, and indentation is removed."""
    visible = INDENTATION.sub(lambda found: "\u00a0" * len(found.group()), text)
    return ACTIVE.sub(r"\\\1", visible)


def inline(text: str) -> str:
    """Foreign text for use inside backquotes: short, on one line, without backquotes."""
    return " ".join(text.replace("`", "'").split())[:80]
