"""The sources of one research: each page that was fetched in it, as it was read, kept as a record. Light to import."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

SHORTEST_QUOTE = 8
"""Characters, without blanks, that quoted words need to be looked for: shorter ones occur anywhere."""
_SIGNS = str.maketrans({"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "–": "-", "—": "-"})
_BLANKS = re.compile(r"\s+")
_ELLIPSIS = re.compile(r"\[?(?:\.\.\.|…)\]?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A page that was fetched. texts: what was read of it, a long page in parts, in the order of reading. digest: of
    all of them, the same for pages with the same content."""

    address: str
    title: str
    texts: tuple[str, ...]
    fetched_at: datetime

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.texts).encode()).hexdigest()


class Sources(Protocol):
    """What was fetched in one research."""

    async def add(self, address: str, title: str, text: str, fetched_at: datetime) -> None:
        """Record a page, or a further part of it. The same part of the same page is recorded once."""

    async def get(self) -> Sequence[Source]:
        """All pages, in the order in which they were first fetched."""

    async def contains(self, address: str, words: str) -> bool:
        """Whether the page was fetched and these words occur in what was read of it."""


@dataclass(slots=True)
class MemorySources:
    """Sources in memory."""

    pages: dict[str, Source] = field(default_factory=dict)

    async def add(self, address: str, title: str, text: str, fetched_at: datetime) -> None:
        key = canonical(address)
        known = self.pages.get(key)
        if known is None:
            self.pages[key] = Source(address=address, title=title, texts=(text,), fetched_at=fetched_at)
        elif text not in known.texts:
            texts = (*known.texts, text)
            self.pages[key] = Source(address=known.address, title=known.title, texts=texts, fetched_at=known.fetched_at)

    async def get(self) -> Sequence[Source]:
        return tuple(sorted(self.pages.values(), key=lambda page: page.fetched_at))

    async def contains(self, address: str, words: str) -> bool:
        source = self.pages.get(canonical(address))
        return source is not None and occurs(words, source.texts)


def canonical(address: str) -> str:
    """The one spelling under which a page is known: without fragment, closing slash, and capitals in the host."""
    try:
        parts = urlsplit(address.strip())
    except ValueError:
        return address.strip()
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), parts.path.rstrip("/"), parts.query, ""))


def occurs(words: str, texts: Sequence[str]) -> bool:
    """Whether quoted words occur in one of these texts; with an ellipsis, each part of them. Blanks, capitals and the
    form of quotation marks and dashes do not count."""
    parts = [part for each in _ELLIPSIS.split(words) if (part := _plain(each).strip(' ".,;:'))]
    if not parts:
        return False
    return any(all(part in plain for part in parts) for plain in map(_plain, texts))


def _plain(text: str) -> str:
    return _BLANKS.sub(" ", unicodedata.normalize("NFKC", text).translate(_SIGNS)).casefold().strip()
