"""Texts within texts: what stands in base64 or hex, decoded, so that it is looked at like everything else. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 200
"""Of one text."""
LONG = 1500
"""Characters of one that needs a reason."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){16,}|(?:\\x[0-9a-fA-F]{2}){8,}|(?:0x[0-9a-fA-F]{2},?\s?){8,}")
_FOLDED = re.compile(
    r"(?m)^[\s\"'+(]{0,40}(?:[A-Za-z0-9/_-]{20,100}[\"',\\ +]{0,8}\n[\"' +]{0,40})+[A-Za-z0-9/_-]{1,100}={0,2}"
)
"""Base64 over several lines, as a program or a mail has it; a plus sign may end a line of either."""
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/_-]")
_NOT_HEX = re.compile(r"\\x|0x|[,\s]")
_PICTURE = re.compile(r"data:(?:image|font|audio|video|application/(?:font|x-font|pdf))[\w/+.;-]*,?\s*\Z")
_PRINTABLE = 0.9


@dataclass(frozen=True, slots=True)
class Blob:
    """offset: where it stands. long: its own length asks for a look. data: what it says."""

    offset: int
    long: bool
    data: bytes


def blobs(text: str) -> Iterator[Blob]:
    """The first MOST of each kind; one of a picture is none."""
    for pattern, decoded in ((_BASE64, _from_base64), (_FOLDED, _from_base64), (_HEX, _from_hex)):
        for number, found in enumerate(pattern.finditer(text)):
            if number >= MOST:
                return
            if _PICTURE.search(text, max(found.start() - 60, 0), found.start()):
                continue
            yield Blob(found.start(), len(found.group()) >= LONG, decoded(found.group()))


def speech(data: bytes) -> str:
    """The text that bytes are, "" where they are none."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    shown = sum(sign.isprintable() or sign in "\n\t\r" for sign in text)
    return text if text and shown / len(text) >= _PRINTABLE else ""


def _from_base64(text: str) -> bytes:
    plain = _NOT_BASE64.sub("", text).translate(str.maketrans("-_", "+/"))
    plain = plain[: len(plain) - (len(plain) % 4 == 1)]
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4))
    except binascii.Error:
        return b""


def _from_hex(text: str) -> bytes:
    plain = _NOT_HEX.sub("", text)
    return bytes.fromhex(plain[: len(plain) - len(plain) % 2])
