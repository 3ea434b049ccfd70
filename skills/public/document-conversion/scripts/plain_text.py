"""Text files in whatever encoding they are. For pathways.py and tables.py."""

from __future__ import annotations

from report import CannotConvert

LIKELY = ["cp1252", "gb18030", "big5", "cp932", "cp949", "cp1251", "koi8_r"]
"""Encodings that are tried first: among all that there are, short texts are guessed wrong."""


def decoded(raw: bytes, encoding: str, name: str) -> tuple[str, str]:
    """The text, and what it was read as. Raises CannotConvert."""
    for candidate in (
        [encoding] if encoding else ["utf-8-sig", "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else ""]
    ):
        try:
            if candidate:
                return raw.decode(candidate), candidate.removesuffix("-sig")
        except (UnicodeDecodeError, LookupError):
            if encoding:
                raise CannotConvert(f"{name} is not {encoding}; leave --encoding out, or name another") from None
    from charset_normalizer import from_bytes

    best = from_bytes(raw, cp_isolation=LIKELY, threshold=0.4).best() or from_bytes(raw).best()
    if best is None:
        raise CannotConvert(
            f"{name}: its encoding cannot be found out; name it with --encoding, such as cp1252 or gb18030"
        )
    return str(best), f"{best.encoding} (a guess: check names with accents)"
