"""The port of knowledge: what is asked, what is found, and the places that a citation names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

FRAGMENT_WORDS = 6


class KnowledgeFailed(Exception):
    """Nothing could be looked up. The text is for operators and the model: a clause without secrets. refused: what was
    asked was not taken, so that it is of no use to ask the same again. budget: key of the one that is used up, "" where
    another reason stopped it."""

    def __init__(self, text: str, *, refused: bool = False, budget: str = "") -> None:
        super().__init__(text)
        self.refused = refused
        self.budget = budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """The one for whom something is looked up or read, and who pays for it. owner: of the collections, "" for the
    installation's. is_group: the owner is a group. speaker, conversation, run_id, thread_id: as in RunContext, "" where
    there is none."""

    owner: str = ""
    is_group: bool = False
    speaker: str = ""
    conversation: str = ""
    run_id: str = ""
    thread_id: str = ""

    @property
    def whose(self) -> str:
        """Whose turn it is where many wait."""
        return self.speaker or self.owner


class Bill(Protocol):
    """Who pays for embeddings, and whether they still may."""

    async def overdraft(self, asker: Asker) -> str:
        """Asked before each request: the key of the used-up budget that forbids it, "" where it may be made."""
        ...

    async def charge(self, asker: Asker, model: str, tokens: int) -> None:
        """Record what a request took. model: the name of its price."""
        ...


class Unbilled:
    """A Bill of nobody."""

    async def overdraft(self, asker: Asker) -> str:
        return ""

    async def charge(self, asker: Asker, model: str, tokens: int) -> None:
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A passage that was found. key: names it among all. collection: its name. name: of the document, a file's path in
    its folder or an address. title: of the document, "" where it has none. page: from 1, None where there are no pages.
    url: where the document can be opened, "" where that is not known."""

    key: str
    collection: str
    name: str
    text: str
    title: str = ""
    page: int | None = None
    heading: str = ""
    url: str = ""

    @property
    def address(self) -> str:
        """What opens the place: the document's address with a fragment, else a name that tells people where to look."""
        if self.url:
            return self.url + self._fragment
        page = f"#page={self.page}" if self.page is not None else ""
        return f"knowledge:{quote(self.collection)}/{quote(self.name)}{page}"

    @property
    def _fragment(self) -> str:
        if "#" in self.url:
            return ""
        if self.page is not None:
            return f"#page={self.page}"
        words = self._first_words()
        return f"#:~:text={quote(words, safe='')}" if words else ""

    def _first_words(self) -> str:
        """Words that stand in the page as they are: those of the nearest heading, else the first ones of the text."""
        if self.heading:
            return self.heading.rpartition(" › ")[2]
        line = next((line for line in self.text.splitlines() if line.strip()), "")
        if any(mark in line for mark in "|[*_`<#"):  # what Markdown made of it stands nowhere in the page
            return ""
        return " ".join(line.split()[:FRAGMENT_WORDS])

    @property
    def place(self) -> str:
        """The document, its page and its headings, for people and for the model."""
        parts = [self.title or self.name]
        if self.page is not None:
            parts.append(f"page {self.page}")
        if self.heading:
            parts.append(self.heading)
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What a search gave. hits: the best first. collections: that there are for who asks. unknown: names that were
    asked for and are none of these. missing: what could not be asked, and why, a clause each."""

    hits: tuple[Hit, ...] = ()
    collections: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class KnowledgeBase(Protocol):
    """What the tool searches."""

    async def search(self, query: str, asker: Asker, collections: Sequence[str] = ()) -> Looked:
        """What the owner may find: their own collections and the installation's. collections: names, all where none is
        given. Raises KnowledgeFailed."""
        ...
