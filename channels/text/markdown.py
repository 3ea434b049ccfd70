"""A reply as pages of a platform's own Markdown. Called by the adapters of platforms that take Markdown."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from channels.text.outline import outline, verbatim
from channels.text.page import Packed, finished, pack
from channels.text.parse import segments
from channels.text.sanitize import is_blank, sanitize

if TYPE_CHECKING:
    from channels.text.dialect import Dialect
    from channels.text.parse import Segment

_EMPTY = Packed()
LEAST_LIMIT = 60
"""The smallest page, in units."""


def pages(text: str, dialect: Dialect, limit: int, *, growing: bool = False) -> tuple[str, ...]:
    """The Markdown `text` as pages of at most `limit` units each; () for a blank text.

    growing: more text will follow, so marks that are open at its end are taken as closed there. While a text grows,
    all pages but the last two stay as they are, if a page holds what can still change (about 2500 characters).
    Raises ValueError for a limit below LEAST_LIMIT.
    """
    if limit < LEAST_LIMIT:
        raise ValueError(f"a page needs at least {LEAST_LIMIT} units")
    if is_blank(text):
        return ()
    *settled, last = segments(text, growing=growing)
    packed = _EMPTY
    for segment in settled:
        packed = _pack_settled(packed, segment, dialect, limit)
    packed = pack(packed, outline(last.blocks, dialect, limit), dialect, limit)
    # Only marks, such as a fence that has just been opened: better as they are than nothing.
    return finished(packed, dialect, limit) or finished(
        pack(_EMPTY, verbatim(sanitize(text), dialect, limit), dialect, limit), dialect, limit
    )


@lru_cache(maxsize=256)
def _pack_settled(above: Packed, segment: Segment, dialect: Dialect, limit: int) -> Packed:
    """Packed up to a segment that cannot change any more: remembered, so that only the end of a reply is written."""
    return pack(above, outline(segment.blocks, dialect, limit), dialect, limit)
