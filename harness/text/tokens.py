"""Tokens of a text, estimated."""

from __future__ import annotations

import re

ASCII_PER_TOKEN = 3.5
"""Characters; on the safe side of what tokenizers make of English."""
TOKENS = ((0x80, 0.0), (0x800, 1.0), (0x2E80, 2.0), (0xD7B0, 1.2), (0xF900, 3.0), (0x10000, 1.5), (0x110000, 3.0))
"""Tokens of one other sign, by the first code point behind its range: alphabets, South and Southeast Asian scripts,
Chinese, Japanese and Korean, rare ones and pictures. On the safe side too."""
_OTHERS = re.compile(r"[^\0-\x7f]")


def tokens(text: str) -> int:
    """Roughly the number of tokens of a text, counted without the network and without a tokenizer."""
    others = [] if text.isascii() else _OTHERS.findall(text)
    weight = sum(next(tokens for end, tokens in TOKENS if ord(sign) < end) for sign in others)
    return int((len(text) - len(others)) / ASCII_PER_TOKEN + weight) + 1
