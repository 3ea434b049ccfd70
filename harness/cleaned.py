"""Text fit to be kept and sent, whoever wrote it. Light to import."""

from __future__ import annotations


def clean_text(text: str) -> str:
    """Text that every store and wire format takes: no NUL, no lone surrogates."""
    if text.isascii():
        return text.replace("\0", "") if "\0" in text else text
    return text.replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
