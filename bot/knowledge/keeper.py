"""Knowledge: the only access to the collections, for reading, changes and searches. It implements the harness's port
`KnowledgeBase`.

Documents are read and split first and written in portions, so that long ones delay no other writes; vectors follow in
the background, and until then passages are found by their words.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import uuid
from collections import Counter, defaultdict
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.knowledge.reading import AGAIN, KEYS, Reading, Unreadable, content_of, files_in
from bot.knowledge.searching import FOLDER, PAGE, Searcher, SpendingBill, named
from bot.knowledge.vectors import Vectors
from bot.store import knowledge
from bot.store.knowledge import EVERYBODYS, DocumentRow, Scope
from channels.supervision import until_first
from harness.files.slots import FairSlots
from harness.knowledge.passages import passages_of
from harness.knowledge.words import words_of
from harness.text.plain import skeleton

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from sqlalchemy import Connection

    from bot.files.sandboxes import Sandboxes
    from bot.knowledge.reading import FoundFile, ReadText
    from bot.settings import Settings
    from bot.store import Store
    from bot.store.knowledge import FoundPassage
    from bot.store.retrying import RetryingStore
    from bot.usage.report import Spending
    from harness.knowledge.config import FolderSettings, KnowledgeSettings
    from harness.knowledge.passages import Passage
    from harness.knowledge.port import Asker, Looked

log = logging.getLogger(__name__)
MEGABYTE = 1_000_000
PORTION = 100
"""Maximum number of passages written in one transaction."""
REFRESHED = 500
"""Maximum number of addresses in one refresh."""
ARRIVING = ".knowledge-"
"""Name prefix of folders below data_dir into which files are fetched; they remain only after a crash."""
MAIN = "main"
"""The default collection for additions."""
NEIGHBOURS = 2
"""Number of passages shown before and after one."""
FILE = "file"
"""Kind of a document that was sent in a chat; for the others see searching.py."""


class LimitReached(Unreadable):
    """The limit on documents, passages or waiting additions is reached. kind: which of them; limit: its value."""

    def __init__(self, kind: str, limit: int) -> None:
        super().__init__(kind, str(limit))
        self.kind, self.limit = kind, limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """A document to be added. place, kind, thread_id: as in DocumentRow."""

    owner: str
    collection: str
    kind: str
    place: str
    added_by: str = ""
    thread_id: str = ""


@dataclass(slots=True)
class Progress:
    """The file or address being read, and the numbers of this pass."""

    what: str = ""
    done: int = 0
    total: int = 0


class Knowledge:
    """The collections. troubles: folder name, or "embeddings" -> why it is not up to date, for operators."""

    def __init__(
        self, settings: Settings, store: RetryingStore | Store, sandboxes: Sandboxes, spending: Spending
    ) -> None:
        self._store = store
        self._clock = store.clock
        self._settings = settings
        self._reading = Reading(settings, sandboxes, store.clock)
        self._bill = SpendingBill(spending)
        self._searcher = Searcher(settings, store, self._bill)
        self._changed, self._added = asyncio.Event(), asyncio.Event()
        self._vectors = Vectors(store, self._searcher.endpoint)
        self._looking = asyncio.Lock()
        self._anew = False
        self._readers = FairSlots(settings.knowledge.readers)
        self._waiting: Counter[str] = Counter()
        """Additions that wait or are being read, by owner, and by person for those in another's collections."""
        self.progress = Progress()
        self.troubles: dict[str, str] = {}

    @property
    def settings(self) -> KnowledgeSettings:
        return self._settings.knowledge

    def covers(self, *, is_group: bool) -> bool:
        """Whether collections of persons, or of groups, are enabled."""
        return self.settings.enabled and (self.settings.groups or not is_group)

    async def adopt(self, settings: Settings) -> None:
        """Apply new settings from now on."""
        self._settings = self._searcher.settings = settings
        self._readers.resize(settings.knowledge.readers)
        await self._reading.adopt(settings)
        self._changed.set()
        self._added.set()

    # Adding and removing.

    @contextmanager
    def admitted(self, owner: str, person: str, count: int) -> Iterator[None]:
        """Count additions as waiting within the block: for the person, including their additions to groups, and for a
        group. Raises LimitReached if either has too many."""
        subjects, limit = {owner, person}, self.settings.max_waiting
        if any(self._waiting[subject] + count > limit for subject in subjects):
            raise LimitReached("waiting", limit)
        self._waiting.update(dict.fromkeys(subjects, count))
        try:
            yield
        finally:
            self._waiting.subtract(dict.fromkeys(subjects, count))
            self._waiting += Counter()  # drops zero counts

    async def add_file(self, addition: Addition, content: Callable[[], bytes]) -> DocumentRow:
        """Add a file, or replace the one at its place. content: called in a thread when it is the owner's turn, so that
        waiting files take no memory. Raises Unreadable; then nothing is changed."""
        began = self._clock.now()
        async with self._turn(addition):
            addition = await self._named(addition)
            await self._check_room(addition)
            try:
                body = await asyncio.to_thread(content)
            except OSError as error:
                raise Unreadable("file", error.strerror or "") from None
            if len(body) > self._most_bytes:
                raise Unreadable("too_large", f"{self.settings.max_file_mb:g}")
            read = await self._reading.file(addition.place, body, addition.owner)
            return await self._write(addition, read, len(body), began)

    async def add_page(self, addition: Addition) -> DocumentRow:
        """Add the page at an address. Raises the same errors as add_file."""
        began = self._clock.now()
        async with self._turn(addition):
            addition = await self._named(addition)
            await self._check_room(addition)
            read = await self._reading.page(addition.place, addition.owner or addition.place)
            return await self._write(addition, read, _size(read), began)

    @asynccontextmanager
    async def _turn(self, addition: Addition) -> AsyncIterator[None]:
        """The owner's turn to have something read. Logs what the config refuses, without naming people's documents."""
        async with self._readers.slot(addition.owner):
            try:
                yield
            except Unreadable as problem:
                if problem.problem in KEYS:
                    log.info("a document was not read: %s (%s)", problem, KEYS[problem.problem])
                raise

    async def documents(self, owner: str) -> list[DocumentRow]:
        """An owner's documents, in the order of their numbers."""
        return await self._store.read(lambda tx: knowledge.documents_of(tx, owner))

    async def pages(self, owner: str) -> dict[str, int]:
        """The page counts of an owner's documents, by id, for those with pages."""
        return await self._store.read(lambda tx: knowledge.pages_of(tx, owner))

    async def around(self, passage: int, owners: tuple[str, ...]) -> list[FoundPassage]:
        """A passage with its neighbours, in order; [] if it is in no document of these owners."""
        return await self._store.read(lambda tx: knowledge.around(tx, passage, NEIGHBOURS, Scope(owners)))

    async def owners(self) -> dict[str, int]:
        """The number of documents of each owner."""
        return await self._store.read(knowledge.owners)

    async def remove(self, ids: Sequence[str]) -> int:
        """Remove documents; returns their number."""
        return await self._store.write(lambda tx: _removed(tx, ids))

    @property
    def _most_bytes(self) -> int:
        return int(self.settings.max_file_mb * MEGABYTE)

    async def _check_room(self, addition: Addition) -> None:
        """Check the number of documents before anything is read. Raises LimitReached."""
        known = await self._known(addition)
        count, _ = await self._store.read(lambda tx: knowledge.totals(tx, addition.owner))
        if known is None and count >= self.settings.max_documents:
            raise LimitReached("documents", self.settings.max_documents)

    async def _named(self, addition: Addition) -> Addition:
        """The addition, with its collection in the existing spelling. Raises Unreadable for a new collection whose name
        could be mistaken for another one's."""
        there = await self._store.read(lambda tx: knowledge.collections(tx, (EVERYBODYS, addition.owner)))
        names = [*self.settings.names, *there]
        for name in names:
            if name.casefold() == addition.collection.casefold():
                return replace(addition, collection=name)
        for name in names:
            if skeleton(name) == skeleton(addition.collection):
                raise Unreadable("alike", name)
        return addition

    async def _known(self, addition: Addition) -> DocumentRow | None:
        return await self._store.read(
            lambda tx: knowledge.at_place(tx, addition.owner, addition.collection, addition.place)
        )

    async def _write(
        self, addition: Addition, read: ReadText, size: int, began: datetime, modified: int = 0
    ) -> DocumentRow:
        """Write what was read, unless it is unchanged. began: when it was requested; if it was removed or forgotten
        since, nothing is written. Raises LimitReached and Unreadable."""
        known, now, settings = await self._known(addition), self._clock.now(), self.settings
        row = known or _row(addition, now)
        whole = replace(
            row, title=read.title, sha256=read.sha256, size=size, modified=modified, problem="", read_at=now
        )
        if known is not None and known.sha256 == read.sha256:
            whole = replace(whole, passages=known.passages)
            await self._store.write(lambda tx: knowledge.put(tx, whole) if knowledge.is_there(tx, row.id) else None)
            return whole
        cut = await asyncio.to_thread(passages_of, read.text, settings.passage_characters)
        _, passages = await self._store.read(lambda tx: knowledge.totals(tx, addition.owner))
        if passages - row.passages + len(cut) > settings.max_passages:
            raise LimitReached("passages", settings.max_passages)
        worded = await asyncio.to_thread(
            lambda: [(each, " ".join(words_of(f"{read.title} {each.heading} {each.text}"))) for each in cut]
        )
        # No hash until it is complete: after a crash in between it is read again.
        # It now belongs to the person and the thread of the new content, and is deleted with them.
        whole = replace(whole, added_by=addition.added_by, thread_id=addition.thread_id)
        partly = replace(whole, sha256="", passages=len(cut))

        subjects = {addition.owner, addition.added_by, addition.thread_id}

        def begin(tx: Connection) -> None:
            gone = known is not None and not knowledge.is_there(tx, known.id)
            if gone or knowledge.forgotten_since(tx, subjects, began):
                raise Unreadable("gone")
            knowledge.put(tx, partly)
            knowledge.put_passages(tx, row.id, 1, worded[:PORTION])

        await self._store.write(begin)
        for start in range(PORTION, len(worded), PORTION):
            portion = worded[start : start + PORTION]
            await self._store.write(lambda tx, at=start + 1, part=portion: _put_more(tx, row.id, at, part))  # type: ignore[misc]
        whole = replace(whole, passages=len(cut))
        await self._store.write(lambda tx: knowledge.put(tx, whole) if knowledge.is_there(tx, row.id) else None)
        self._added.set()
        return whole

    # Folders and addresses, checked repeatedly.

    async def serve(self) -> None:
        """Keep the collections up to date until cancelled."""
        await asyncio.to_thread(_clear, self._settings.data_dir)
        # Separately: vectors of new documents do not wait for slow addresses.
        async with asyncio.TaskGroup() as both:
            both.create_task(self._repeat(self._follow_asked, self._changed), name="knowledge followed")
            both.create_task(self._repeat(self.embed, self._added), name="knowledge embedded")

    async def _repeat(self, work: Callable[[], Awaitable[None]], wake: asyncio.Event) -> None:
        while True:
            wake.clear()
            if self.settings.enabled:
                try:
                    await work()
                except Exception:
                    # Any error, also of an operator's own service: the existing documents can still be searched.
                    log.exception("the knowledge could not be updated")
            await until_first(wake.wait(), self._clock.sleep(self.settings.scan_minutes * 60))

    async def _follow_asked(self) -> None:
        anew, self._anew = self._anew, False
        await self._follow(anew=anew)

    async def look(self, *, anew: bool = False) -> None:
        """Read what has changed, and make missing vectors. anew: read everything again."""
        await self._follow(anew=anew)
        await self.embed()

    async def _follow(self, *, anew: bool) -> None:
        """Read the folders' changed files, and addresses that are due."""
        async with self._looking:
            try:
                await self._drop_folders()
                for folder in self.settings.folders:
                    await self._scan(folder, anew=anew)
                await self._refresh(anew=anew)
            finally:
                self.progress = Progress()

    def look_anew(self) -> None:
        """Have everything read again, as soon as `serve` has finished its current pass."""
        self._anew = True
        self._changed.set()

    async def _drop_folders(self) -> None:
        """Remove the documents of folders that are no longer in the settings."""
        names = {folder.name for folder in self.settings.folders}
        own = await self._store.read(lambda tx: knowledge.documents_of(tx, EVERYBODYS))
        gone = [row.id for row in own if row.kind == FOLDER and row.collection not in names]
        if gone:
            await self.remove(gone)
        for name in self.troubles.keys() - names - {"embeddings"}:
            self.troubles.pop(name)

    async def _scan(self, folder: FolderSettings, *, anew: bool) -> None:
        try:
            most = self.settings.max_documents
            files = await asyncio.to_thread(files_in, folder.path, most + 1)
        except OSError as error:  # its documents stay: it may be back the next time
            self._trouble(folder.name, f"{error.filename or folder.path}: {error.strerror}")
            return
        if len(files) > most:
            self._trouble(
                folder.name, f"it has more than {most} files (knowledge.max_documents); the others are left out"
            )
            files = files[:most]
        else:
            self.troubles.pop(folder.name, None)
        rows = await self._store.read(lambda tx: knowledge.documents_of(tx, EVERYBODYS, folder.name))
        known = {row.place: row for row in rows if row.kind == FOLDER}
        gone = [known[place].id for place in known.keys() - {file.place for file in files}]
        if gone:
            await self.remove(gone)
        changed = [file for file in files if anew or _has_changed(file, known.get(file.place))]
        for number, file in enumerate(changed, 1):
            self.progress = Progress(f"{folder.name}/{file.place}", number, len(changed))
            await self._read_file(folder, file)
        if changed or gone:
            log.info("knowledge %s: %d files read, %d removed", folder.name, len(changed), len(gone))

    async def _read_file(self, folder: FolderSettings, file: FoundFile) -> None:
        addition = Addition(owner=EVERYBODYS, collection=folder.name, kind=FOLDER, place=file.place)
        try:
            body = await asyncio.to_thread(content_of, folder.path, file.path, self._most_bytes)
            if len(body) > self._most_bytes:
                raise Unreadable("too_large", f"{self.settings.max_file_mb:g}")
            await self._check_room(addition)
            read = await self._reading.file(file.place, body, folder.name)
            await self._write(addition, read, file.size, self._clock.now(), file.modified)
        except OSError as error:
            await self._note_problem(addition, Unreadable("file", error.strerror or ""), file)
        except Unreadable as problem:
            await self._note_problem(addition, problem, file)

    async def _note_problem(self, addition: Addition, problem: Unreadable, file: FoundFile | None = None) -> None:
        """Record why a document cannot be read; what was read before stays only for a page."""
        if addition.owner == EVERYBODYS:  # people's documents are never logged
            log.warning("knowledge %s: %s was not read: %s", addition.collection, addition.place, problem)
        known, now = await self._known(addition), self._clock.now()
        row = replace(known or _row(addition, now), problem=str(problem), read_at=now)
        if file is not None:
            row = replace(row, sha256="", passages=0, size=file.size, modified=file.modified)

        def unit(tx: Connection) -> None:
            if known is not None and not knowledge.is_there(tx, known.id):
                return
            knowledge.put(tx, row)
            if file is not None:
                knowledge.put_passages(tx, row.id, 1, ())

        await self._store.write(unit)

    async def _refresh(self, *, anew: bool) -> None:
        """Read due addresses again."""
        before = self._clock.now() - (timedelta() if anew else timedelta(hours=self.settings.refresh_hours))
        rows = await self._store.read(lambda tx: knowledge.pages_read_before(tx, before, 10_000 if anew else REFRESHED))
        theirs: defaultdict[str, list[DocumentRow]] = defaultdict(list)
        for row in rows:
            theirs[row.owner].append(row)
        self.progress = Progress(total=len(rows))
        try:
            async with asyncio.TaskGroup() as owners:
                for pages in theirs.values():
                    owners.create_task(self._refresh_all(pages))
        except ExceptionGroup as failed:  # an error of the store, which callers expect without a group
            raise failed.exceptions[0] from None

    async def _refresh_all(self, rows: Sequence[DocumentRow]) -> None:
        """Read one owner's addresses again, one after the other, concurrently with other owners'."""
        for row in rows:
            async with self._readers.slot(row.owner):
                self.progress.what = row.place if row.owner == EVERYBODYS else "a page"
                self.progress.done += 1
                await self._refresh_page(row)

    async def _refresh_page(self, row: DocumentRow) -> None:
        addition = Addition(
            owner=row.owner, collection=row.collection, kind=PAGE, place=row.place, added_by=row.added_by
        )
        began = self._clock.now()
        try:
            read = await self._reading.page(row.place, row.owner or row.place)
            if await self._known(addition) is not None:  # not removed since
                await self._write(addition, read, _size(read), began)
        except Unreadable as problem:
            if problem.problem != "gone" and await self._known(addition) is not None:
                await self._note_problem(addition, problem)

    # Vectors.

    async def embed(self) -> None:
        """Make missing vectors, as far as the endpoint and the budgets permit."""
        why = await self._vectors.make()
        if why:
            self._trouble("embeddings", why)
        else:
            self.troubles.pop("embeddings", None)

    async def vectors_wait_for(self, payer: Asker) -> str:
        """Key of the exhausted budget that delays the vectors of new documents; "" if none does."""
        return await self._bill.overdraft(payer) if self.settings.embeddings is not None else ""

    def _trouble(self, name: str, why: str) -> None:
        if self.troubles.get(name) != why:
            log.warning("knowledge %s is not up to date: %s", name, why)
        self.troubles[name] = why

    async def search(self, query: str, asker: Asker, collections: Sequence[str] = ()) -> Looked:
        """See harness.knowledge.port.KnowledgeBase."""
        return await self._searcher.search(query, asker, collections)

    async def named(self, names: Sequence[str], asker: Asker) -> tuple[list[str], tuple[str, ...], list[str]]:
        """Which of these collections exist for the asker, which do not, and all existing ones."""
        there = await self._searcher.names(asker)
        return *named(names, there), there

    async def close(self) -> None:
        """Release connections and processes."""
        await self._searcher.close()
        await self._reading.close()


def _row(addition: Addition, now: datetime) -> DocumentRow:
    return DocumentRow(
        id=uuid.uuid4().hex,
        owner=addition.owner,
        collection=addition.collection,
        kind=addition.kind,
        place=addition.place,
        added_by=addition.added_by,
        thread_id=addition.thread_id,
        added_at=now,
        read_at=now,
    )


def _size(read: ReadText) -> int:
    return len(read.text.encode("utf-8", "replace"))


def _removed(tx: Connection, ids: Sequence[str]) -> int:
    gone = knowledge.remove(tx, ids)
    knowledge.tidy(tx)
    return gone


def _clear(data_dir: Path) -> None:
    """Delete fetched files that a crash left behind."""
    for folder in data_dir.glob(f"{ARRIVING}*"):
        shutil.rmtree(folder, ignore_errors=True)


def _put_more(tx: Connection, known: str, first: int, portion: Sequence[tuple[Passage, str]]) -> None:
    """Write a further portion, unless the document was removed since."""
    if knowledge.is_there(tx, known):
        knowledge.put_passages(tx, known, first, portion)


def _has_changed(file: FoundFile, known: DocumentRow | None) -> bool:
    if known is None or (known.modified, known.size) != (file.modified, file.size):
        return True
    return not known.sha256 and (not known.problem or known.problem.partition(":")[0] in AGAIN)
