"""Rules of the scanner: an expression, where it counts, and how much. RE2, so that no text can make one slow."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.skills.scanning.texts import Place
from harness.skills.verdict import Level

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_MEMORY = 16 << 20

BLOCK, WARN, ALLOW = Level.BLOCK, Level.WARN, Level.ALLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """An expression to search for in undisguised text, across line breaks.

    level: in anything that runs, and in data.
    prose: level in prose, None: the same.
    also: expression that must occur in the same text too.
    keep: whether a match counts.
    words: the rule is about wording, so a program that only mentions it is treated like prose.
    secret: matches are shown masked.
    """

    name: str
    level: Level
    pattern: str
    places: Place = Place.ANYWHERE
    prose: Level | None = None
    also: str = ""
    keep: Callable[[str], bool] | None = None
    words: bool = False
    secret: bool = False

    def level_in(self, place: Place) -> Level:
        """The rule's level in a kind of text; ALLOW if it does not count there."""
        if not self.places & place:
            return ALLOW
        return self.level if self.prose is None or not place & Place.PROSE else self.prose


@functools.lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """The compiled expression; a dot matches no line break unless the pattern says otherwise."""
    import re2  # type: ignore[import-untyped]  # 1.5 MB, which a gateway that checks no skills does not need

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MOST_MEMORY
    return re2.compile(pattern, options)
