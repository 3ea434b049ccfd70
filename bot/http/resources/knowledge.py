"""Collections of documents, one's own and those for everyone, which administrators maintain; and searches in them.
Those of groups belong to their chats."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bot.control.actions import Action
from bot.http.errors import HttpProblem
from bot.http.resources.sight import log_act, unknown
from bot.http.talk import too_much
from bot.knowledge.keeper import ARRIVING, FILE, MAIN, MEGABYTE, Addition, LimitReached
from bot.knowledge.reading import Unreadable
from bot.knowledge.searching import FOLDER, PAGE
from bot.store.identity import harmless_name
from bot.store.knowledge import EVERYBODYS
from bot.texts import texts_for
from bot.texts.commands import unmarked
from harness.knowledge.config import COLLECTION, LONGEST_NAME
from harness.knowledge.port import Asker, KnowledgeFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Iterator, Sequence

    from bot.http.auth import Caller
    from bot.http.parts import HttpParts
    from bot.store.knowledge import DocumentRow
    from harness.knowledge.port import Hit

LONGEST_QUESTION = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document. kind: file, page or folder. name: of a file, its path in its folder, or the address. pages: None
    where it has none. size: bytes, for a page those of its text. problem: why it could not be read, "" if it was. by:
    who added it, "" for the installation. removable: by the caller."""

    id: str
    collection: str
    kind: str
    name: str
    title: str
    pages: int | None
    passages: int
    size: int
    problem: str
    by: str
    added_at: datetime
    read_at: datetime
    removable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionCount:
    """A collection for everyone; documents: None for a service, which does not report them."""

    name: str
    documents: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Documents and collections. enabled: this gateway has knowledge. own: the caller's documents, in the order of
    their numbers in the chat. everybodys: the collections of the installation; documents: those in them. troubles: by
    the name of a folder, or "embeddings", why it is not up to date. reading: (done, total) of current reading, (0, 0)
    for none; these three for operators only."""

    enabled: bool
    own: tuple[Document, ...]
    everybodys: tuple[CollectionCount, ...]
    documents: tuple[Document, ...]
    troubles: dict[str, str]
    reading: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPassage:
    """A passage found for a question. id: of the passage, "" where another service keeps it. place: document, page and
    headings, for people. address: opens the place, "" where only `GET /api/knowledge/passages/{id}` does."""

    id: str
    collection: str
    name: str
    title: str
    page: int | None
    heading: str
    place: str
    address: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The passages found, the best first. missing: what could not be searched, and why, a clause each."""

    passages: tuple[FoundPassage, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A passage near the requested one. here: it is the requested one; the others precede and follow it."""

    id: str
    page: int | None
    heading: str
    text: str
    here: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A passage in its document. own: the document is the caller's. address: of the document, "" where it has none."""

    collection: str
    name: str
    title: str
    own: bool
    address: str
    passages: tuple[Passage, ...]


class Collections:
    """Documents that a caller may see, add and remove. Each method raises HttpProblem, 404 also for what belongs to
    others."""

    def __init__(self, parts: HttpParts) -> None:
        self._parts = parts
        self._knowledge = parts.knowledge

    async def list(self, caller: Caller, language: str = "en") -> Library:
        """The documents that a caller may see. language: of the problems."""
        knowledge, operates = self._knowledge, caller.may("operate")
        if not knowledge.settings.enabled:
            return Library(enabled=False, own=(), everybodys=(), documents=(), troubles={}, reading=(0, 0))
        own, everybodys = await knowledge.documents(caller.person), await knowledge.documents(EVERYBODYS)
        counts: dict[str, int | None] = {service.name: None for service in knowledge.settings.services}
        for row in everybodys:
            counts[row.collection] = (counts.get(row.collection) or 0) + 1
        progress = knowledge.progress
        return Library(
            enabled=True,
            own=await self._told(own, caller, language),
            everybodys=tuple(CollectionCount(name=name, documents=counts[name]) for name in sorted(counts)),
            documents=await self._told(everybodys, caller, language) if operates else (),
            troubles=dict(knowledge.troubles) if operates else {},
            reading=(progress.done, progress.total) if operates else (0, 0),
        )

    async def _told(self, rows: Sequence[DocumentRow], caller: Caller, language: str) -> tuple[Document, ...]:
        pages = await self._knowledge.pages(rows[0].owner) if rows else {}
        return tuple(
            Document(
                id=row.id,
                collection=row.collection,
                kind=row.kind,
                name=row.place,
                title=row.title,
                pages=pages.get(row.id),
                passages=row.passages,
                size=row.size,
                problem=problem_told(row.problem, language) if row.problem else "",
                by=row.added_by,
                added_at=row.added_at,
                read_at=row.read_at,
                removable=row.owner == caller.person or (caller.may("admin") and row.kind != FOLDER),
            )
            for row in rows
        )

    # Adding and taking away.

    async def add_file(
        self,
        caller: Caller,
        name: str,
        chunks: AsyncIterable[bytes],
        *,
        collection: str = "",
        everybody: bool = False,
        language: str = "en",
    ) -> Document:
        """Read a file, replacing one of the same name in the collection. chunks: its content."""
        addition = self._addition(caller, FILE, harmless_name(name, "file"), collection, everybody=everybody)
        place = self._parts.settings().data_dir
        with (
            self._admitted(caller, addition, language),
            tempfile.TemporaryDirectory(prefix=ARRIVING, dir=place) as folder,
        ):
            file = Path(folder) / "file"  # on the disk: a file waiting for its turn takes no memory
            await self._receive(caller, chunks, file)
            row = await self._knowledge.add_file(addition, file.read_bytes)
        return await self._added(caller, row, language)

    async def _receive(self, caller: Caller, chunks: AsyncIterable[bytes], file: Path) -> None:
        """Store what a caller sends. Raises Unreadable, HttpProblem."""
        allowance, count = self._parts.uploads.sending(caller.person), 0
        most = self._knowledge.settings.max_file_mb
        with file.open("wb", buffering=0) as kept:
            async for chunk in chunks:
                count += len(chunk)
                if (over := allowance.exceeded(count, len(chunk))) is not None:
                    raise too_much(over, allowance.limit(over))
                if count > most * MEGABYTE:
                    raise Unreadable("too_large", f"{most:g}")
                allowance.take(len(chunk))
                await asyncio.to_thread(kept.write, chunk)

    async def add_page(
        self, caller: Caller, address: str, *, collection: str = "", everybody: bool = False, language: str = "en"
    ) -> Document:
        """Read the page at an address, by the rules of `web_fetch`, and again each day."""
        address = address.strip()
        if not address.lower().startswith(("http://", "https://")) or len(address.split()) != 1:
            raise HttpProblem(422, "invalid", "an address must begin with https:// or http:// and have no spaces")
        addition = self._addition(caller, PAGE, address, collection, everybody=everybody)
        with self._admitted(caller, addition, language):
            row = await self._knowledge.add_page(addition)
        return await self._added(caller, row, language)

    def _addition(self, caller: Caller, kind: str, place: str, collection: str, *, everybody: bool) -> Addition:
        self._require_enabled()
        if everybody and not caller.may("admin"):
            raise HttpProblem(403, "missing_scope", "everybody=true needs the scope admin", scopes=["admin"])
        if collection and not COLLECTION.fullmatch(collection):
            text = f"a collection's name may have at most {LONGEST_NAME} letters, digits, - and _"
            raise HttpProblem(422, "bad_collection", text)
        collection = collection or MAIN
        if everybody and collection in {folder.name for folder in self._knowledge.settings.folders}:
            raise HttpProblem(409, "folder", "that is a folder of the config: files put there are found automatically")
        # Documents for everyone belong to the installation: they do not leave with the person who added them.
        owner, added_by = (EVERYBODYS, "") if everybody else (caller.person, caller.person)
        return Addition(owner=owner, collection=collection, kind=kind, place=place, added_by=added_by)

    @contextmanager
    def _admitted(self, caller: Caller, addition: Addition, language: str) -> Iterator[None]:
        """Count the addition as waiting, and report to the caller why it could not be read."""
        try:
            with self._knowledge.admitted(addition.owner, caller.person, 1):
                yield
        except Unreadable as problem:
            raise _unreadable(problem, language) from None

    async def _added(self, caller: Caller, row: DocumentRow, language: str) -> Document:
        log_act(caller, Action.KNOWLEDGE_ADD, of=row.owner, what=row.collection)
        (told,) = await self._told([row], caller, language)
        return told

    async def remove(self, caller: Caller, document: str) -> Document:
        """Remove a document: one's own, or as an administrator one of the installation's that is in no folder of the
        config."""
        own = await self._knowledge.documents(caller.person)
        more = await self._knowledge.documents(EVERYBODYS) if caller.may("admin") else []
        row = next((row for row in (*own, *more) if row.id == document), None)
        if row is None:
            raise unknown("document")
        if row.kind == FOLDER:
            raise HttpProblem(409, "folder", "it is in a folder of the config: delete it there")
        (told,) = await self._told([row], caller, "en")
        await self._knowledge.remove([row.id])
        log_act(caller, Action.KNOWLEDGE_REMOVE, of=row.owner, what=row.collection)
        return told

    # Searching.

    async def ask(self, caller: Caller, question: str, collection: str = "") -> Answers:
        """The passages that fit a question best, from one's own collections and those for everyone."""
        self._require_enabled()
        chosen = (collection,) if collection else ()
        async with self._parts.gatekeeper.searching(caller):
            try:
                asker = Asker(owner=caller.person, speaker=caller.person)
                looked = await self._knowledge.search(question[:LONGEST_QUESTION], asker, chosen)
            except KnowledgeFailed as failure:
                raise HttpProblem(503, "knowledge_unavailable", str(failure)) from None
        if looked.unknown:
            raise unknown("collection")
        return Answers(passages=tuple(map(_found, looked.hits)), missing=looked.missing)

    async def place(self, caller: Caller, passage: str) -> Place:
        """A passage with its surroundings."""
        number = int(passage) if passage.isascii() and passage.isdigit() and len(passage) < 18 else 0
        found = await self._knowledge.around(number, (caller.person, EVERYBODYS))
        if not found or not self._knowledge.settings.enabled:
            raise unknown("passage")
        row = found[0].document
        return Place(
            collection=row.collection,
            name=row.place,
            title=row.title,
            own=row.owner == caller.person,
            address=row.place if row.kind == PAGE else "",
            passages=tuple(
                Passage(id=str(p.id), page=p.page, heading=p.heading, text=p.text, here=p.id == number) for p in found
            ),
        )

    def _require_enabled(self) -> None:
        if not self._knowledge.settings.enabled:
            raise HttpProblem(409, "disabled", "this gateway has no knowledge: knowledge.enabled is false")


def problem_told(problem: str, language: str) -> str:
    """Why a document was not read, for people. problem: as written by Unreadable."""
    kind, _, detail = problem.partition(": ")
    known = texts_for(language).knowledge_problem
    return unmarked(known.get(kind, known["other"]).format(detail=detail)).strip()


def _unreadable(problem: Unreadable, language: str) -> HttpProblem:
    if isinstance(problem, LimitReached) and problem.kind == "waiting":
        text = texts_for(language).knowledge["full"].format(count=problem.limit)
        return HttpProblem(429, "too_many_waiting", unmarked(text).strip())
    return HttpProblem(422, "not_readable", problem_told(str(problem), language))


def _found(hit: Hit) -> FoundPassage:
    return FoundPassage(
        id=hit.key if hit.key.isascii() and hit.key.isdigit() else "",
        collection=hit.collection,
        name=hit.name,
        title=hit.title,
        page=hit.page,
        heading=hit.heading,
        place=hit.place,
        address=hit.address if hit.url else "",
        text=hit.text,
    )
