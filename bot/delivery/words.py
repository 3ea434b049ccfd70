"""When a growing text holds enough to call people to it."""

from __future__ import annotations

import re

ENOUGH = 30
"""Characters that are worth a notification without a whole sentence."""
_CHINESE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CHINESE}]{{2}}|[^\W{_CHINESE}]+")
_SENTENCE = re.compile(r"(?<![^\W\d_])[^\W\d_]{2,}[.!?…]+[\"'”’)\]*_]*\s|[!?…。！？]|\n")


def tells(text: str) -> bool:
    """Whether it is more than one word, or two Chinese characters."""
    words = _WORD.finditer(text)
    return next(words, None) is not None and next(words, None) is not None


def worth_a_call(text: str) -> bool:
    """Whether it holds a sentence or enough characters; never one word alone."""
    return tells(text) and (len(text.strip()) >= ENOUGH or _SENTENCE.search(text) is not None)
