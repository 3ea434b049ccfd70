"""The knowledge port: requests, results, and the addresses that citations use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

FRAGMENT_WORDS = 6


class KnowledgeFailed(Exception):
    """A search or request failed. The text is for operators and the model: a clause without secrets. refused: the
    request was rejected, so repeating it is of no use. budget: key of the budget that is used up, "" for any other
    reason."""

    def __init__(self, text: str, *, refused: bool = False, budget: str = "") -> None:
        super().__init__(text)
        self.refused = refused
        self.budget = budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """The person that a search or reading is done for, and that pays for it. owner: of the collections, "" for the
    installation's. is_group: the owner is a group. speaker, conversation, run_id, thread_id: as in RunContext, "" if
    there is none."""

    owner: str = ""
    is_group: bool = False
    speaker: str = ""
    conversation: str = ""
    run_id: str = ""
    thread_id: str = ""

    @property
    def whose(self) -> str:
        """The identity that counts in a queue."""
        return self.speaker or self.owner


class Bill(Protocol):
    """Accounts for embeddings: who pays, and whether they still may."""

    async def overdraft(self, asker: Asker) -> str:
        """The key of the used-up budget that forbids a request, "" if it is allowed. Called before each request."""
        ...

    async def charge(self, asker: Asker, model: str, tokens: int) -> None:
        """Record the cost of a request. model: the name of its price."""
        ...


class Unbilled:
    """A Bill that charges nobody."""

    async def overdraft(self, asker: Asker) -> str:
        return ""

    async def charge(self, asker: Asker, model: str, tokens: int) -> None:
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A passage that was found. key: unique among all. collection: its name. name: of the document, a path in its
    folder or an address. title: of the document, "" without one. page: from 1, None without pages. url: where the
    document can be opened, "" if unknown."""

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
        """A link to the place: the document's address with a fragment, else a name that tells people where to look."""
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
        """Words found verbatim in the page: those of the nearest heading, else the first ones of the text."""
        if self.heading:
            return self.heading.rpartition(" › ")[2]
        line = next((line for line in self.text.splitlines() if line.strip()), "")
        if any(mark in line for mark in "|[*_`<#"):  # the page does not contain the Markdown markup
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
    """The result of a search. hits: best first. collections: those available to the asker. unknown: requested names
    that are none of these. missing: collections that could not be searched, and why, one clause each."""

    hits: tuple[Hit, ...] = ()
    collections: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class KnowledgeBase(Protocol):
    """The knowledge that the tool searches."""

    async def search(self, query: str, asker: Asker, collections: Sequence[str] = ()) -> Looked:
        """Search what the owner may find: their own collections and the installation's. collections: names; all if
        empty. Raises KnowledgeFailed."""
        ...
