"""Documents and their passages: stored, found by words and by vectors, and deleted together with their owners."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from operator import mul
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, column, delete, func, literal_column, or_, select, table, text, update

from bot.store.knowledge_tables import WORDS_CONFIG, knowledge_documents, knowledge_passages
from bot.store.rows import columns_of, value_of
from bot.store.sql import chunks, insert
from bot.store.tables import conversations, deletions
from harness.knowledge.port import Asker

if TYPE_CHECKING:
    from array import array
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, Select

    from harness.knowledge.passages import Passage

EVERYBODYS = ""
"""The owner of the installation's collections."""
MOST_RANKED = 50
"""Most results of each ranking."""
COMPARED = 500
"""Vectors fetched per query to be compared here, if the database cannot compare them."""
DOCUMENTS, PASSAGES = knowledge_documents, knowledge_passages
INDEX = table("knowledge_words", column("rowid"))
"""The full-text index on SQLite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRow:
    """A document. Columns are described in knowledge_tables.py."""

    id: str
    owner: str
    collection: str
    kind: str
    place: str
    title: str = ""
    sha256: str = ""
    modified: int = 0
    size: int = 0
    passages: int = 0
    problem: str = ""
    added_by: str = ""
    thread_id: str = ""
    added_at: datetime
    read_at: datetime


@dataclass(frozen=True, slots=True)
class Scope:
    """The documents that one search covers. owners: of the documents. collections: names; None: all."""

    owners: tuple[str, ...]
    collections: tuple[str, ...] | None = None

    @property
    def where(self) -> ColumnElement[bool]:
        mine = DOCUMENTS.c.owner.in_(self.owners)
        return mine if self.collections is None else mine & DOCUMENTS.c.collection.in_(self.collections)


@dataclass(frozen=True, slots=True)
class FoundPassage:
    """A passage with its document."""

    id: int
    document: DocumentRow
    page: int | None
    heading: str
    text: str


# Documents.


def documents(tx: Connection, where: ColumnElement[bool]) -> list[DocumentRow]:
    """The documents that match, in the order in which they were added, which is that of their numbers."""
    query = select(DOCUMENTS).where(where).order_by(DOCUMENTS.c.added_at, DOCUMENTS.c.id)
    return [value_of(DocumentRow, row) for row in tx.execute(query)]


def documents_of(tx: Connection, owner: str, collection: str | None = None) -> list[DocumentRow]:
    """The documents of one owner, only of `collection` if given."""
    mine = DOCUMENTS.c.owner == owner
    return documents(tx, mine if collection is None else mine & (DOCUMENTS.c.collection == collection))


def pages_read_before(tx: Connection, before: datetime, limit: int) -> list[DocumentRow]:
    """Web pages last read before that time, oldest first."""
    query = select(DOCUMENTS).where(DOCUMENTS.c.kind == "page", DOCUMENTS.c.read_at < before)
    return [value_of(DocumentRow, row) for row in tx.execute(query.order_by(DOCUMENTS.c.read_at).limit(limit))]


def at_place(tx: Connection, owner: str, collection: str, place: str) -> DocumentRow | None:
    """The document of an owner's collection at a place: there is at most one."""
    here = (DOCUMENTS.c.owner == owner) & (DOCUMENTS.c.collection == collection) & (DOCUMENTS.c.place == place)
    row = tx.execute(select(DOCUMENTS).where(here)).first()
    return None if row is None else value_of(DocumentRow, row)


def is_there(tx: Connection, known: str) -> bool:
    """Whether a document still exists."""
    return tx.scalar(select(DOCUMENTS.c.id).where(DOCUMENTS.c.id == known)) is not None


def collections(tx: Connection, owners: Sequence[str]) -> list[str]:
    """The names of these owners' collections."""
    query = select(DOCUMENTS.c.collection).where(DOCUMENTS.c.owner.in_(owners)).distinct()
    return sorted(tx.scalars(query))


def owners(tx: Connection) -> dict[str, int]:
    """The number of documents of each owner."""
    rows = tx.execute(select(DOCUMENTS.c.owner, func.count()).group_by(DOCUMENTS.c.owner).order_by(DOCUMENTS.c.owner))
    return {row[0]: int(row[1]) for row in rows}


def pages_of(tx: Connection, owner: str) -> dict[str, int]:
    """The number of pages of an owner's documents, by id, for those that have pages."""
    last = func.max(PASSAGES.c.page)
    query = select(DOCUMENTS.c.id, last).join(PASSAGES, DOCUMENTS.c.id == PASSAGES.c.document_id)
    rows = tx.execute(query.where(DOCUMENTS.c.owner == owner).group_by(DOCUMENTS.c.id).having(last.is_not(None)))
    return {row[0]: int(row[1]) for row in rows}


def totals(tx: Connection, owner: str) -> tuple[int, int]:
    """The numbers of documents and passages of an owner."""
    query = select(func.count(), func.coalesce(func.sum(DOCUMENTS.c.passages), 0)).where(DOCUMENTS.c.owner == owner)
    count, passages = tx.execute(query).one()
    return int(count), int(passages)


def forgotten_since(tx: Connection, subjects: Collection[str], began: datetime) -> bool:
    """Whether the deletion of one of these persons or threads was requested since then. If so, what was read in the
    meantime must not be kept."""
    own = {subject.partition(":")[2] for subject in subjects}  # a person's native id on the page and the API
    asked = deletions.c.subject.in_({*subjects, *own} - {""}) & (deletions.c.asked_at >= began)
    return tx.scalar(select(deletions.c.id).where(asked).limit(1)) is not None


def put(tx: Connection, row: DocumentRow) -> None:
    """Insert or replace a document. Its passages are not touched."""
    values = columns_of(row)
    changes = {name: value for name, value in values.items() if name not in ("id", "added_at")}
    tx.execute(insert(tx, DOCUMENTS).values(values).on_conflict_do_update(index_elements=["id"], set_=changes))


def put_passages(tx: Connection, known: str, first: int, passages: Sequence[tuple[Passage, str]]) -> None:
    """Add passages, each with its words, to a document. first: the number of the first passage; if it is 1, all earlier
    passages are deleted first."""
    if first == 1:
        tx.execute(delete(PASSAGES).where(PASSAGES.c.document_id == known))
    values = [
        {
            "document_id": known,
            "number": number,
            "page": passage.page,
            "heading": passage.heading,
            "text": passage.text,
            "words": words,
            "model": "",
            "vector": None,
        }
        for number, (passage, words) in enumerate(passages, first)
    ]
    if values:
        tx.execute(PASSAGES.insert(), values)


def remove(tx: Connection, ids: Collection[str]) -> int:
    """Delete documents with their passages; return how many documents."""
    gone = 0
    for part in chunks(ids):
        tx.execute(delete(PASSAGES).where(PASSAGES.c.document_id.in_(part)))
        gone += tx.execute(delete(DOCUMENTS).where(DOCUMENTS.c.id.in_(part))).rowcount
    return gone


def _remove_where(tx: Connection, where: ColumnElement[bool]) -> int:
    return remove(tx, list(tx.scalars(select(DOCUMENTS.c.id).where(where))))


def remove_thread(tx: Connection, thread_id: str) -> int:
    """Delete the documents made from a deleted thread's files; return how many."""
    return _remove_where(tx, DOCUMENTS.c.thread_id == thread_id)


def remove_person(tx: Connection, person: str, until: datetime) -> int:
    """Delete a person's own documents and those that they added to groups' collections until then; return how many."""
    theirs = or_(DOCUMENTS.c.owner == person, DOCUMENTS.c.added_by == person)
    return _remove_where(tx, theirs & (DOCUMENTS.c.added_at <= until))


def tidy(tx: Connection) -> None:
    """Purge deleted words from SQLite's index, which otherwise keeps them until it is merged."""
    if tx.dialect.name == "sqlite":
        tx.execute(text("INSERT INTO knowledge_words(knowledge_words) VALUES ('optimize')"))


# Vectors are computed after the words are stored, and again for another model.


def lacking_vectors(tx: Connection, model: str) -> list[Asker]:
    """The payers for passages without a vector of that model, by the owner and the person who added them."""
    key = select(func.min(conversations.c.key)).where(conversations.c.owner == DOCUMENTS.c.owner).scalar_subquery()
    query = select(DOCUMENTS.c.owner, DOCUMENTS.c.added_by, func.coalesce(key, "").label("conversation")).distinct()
    lacking = select(PASSAGES.c.id).where(PASSAGES.c.document_id == DOCUMENTS.c.id, PASSAGES.c.model != model).exists()
    rows = tx.execute(query.where(lacking).order_by(DOCUMENTS.c.owner, DOCUMENTS.c.added_by))
    return [Asker(owner=row.owner, speaker=row.added_by, conversation=row.conversation) for row in rows]


def without_vector(tx: Connection, model: str, payer: Asker, after: int, limit: int) -> list[tuple[int, str]]:
    """Passages after that id without a vector of that model, each with the text to embed."""
    query = select(PASSAGES.c.id, DOCUMENTS.c.title, PASSAGES.c.heading, PASSAGES.c.text)
    query = query.join(DOCUMENTS, DOCUMENTS.c.id == PASSAGES.c.document_id)
    query = query.where(DOCUMENTS.c.owner == payer.owner, DOCUMENTS.c.added_by == payer.speaker)
    rows = tx.execute(
        query.where(PASSAGES.c.model != model, PASSAGES.c.id > after).order_by(PASSAGES.c.id).limit(limit)
    )
    return [(row.id, "\n".join(part for part in (row.title, row.heading, row.text) if part)) for row in rows]


def set_vectors(tx: Connection, model: str, vectors: Sequence[tuple[int, array[float] | None]]) -> None:
    """Record a model's vectors of passages; passages that are gone are skipped."""
    change = update(PASSAGES).where(PASSAGES.c.id == bindparam("passage")).values(model=model, vector=bindparam("made"))
    tx.execute(change, [{"passage": known, "made": vector} for known, vector in vectors])


# Search.


def by_words(tx: Connection, words: Sequence[str], scope: Scope) -> list[int]:
    """Ids of the passages with any of these words, best first. words: from asked_words."""
    if not words:
        return []
    if tx.dialect.name == "sqlite":
        asked = " OR ".join(f'"{word[:-1]}" *' if word.endswith("*") else f'"{word}"' for word in words)
        index = text("knowledge_words MATCH :asked").bindparams(asked=asked)
        query = _scoped(scope).join(INDEX, INDEX.c.rowid == PASSAGES.c.id)
        return list(tx.scalars(query.where(index).order_by(text("bm25(knowledge_words)")).limit(MOST_RANKED)))
    asked = " | ".join(f"'{word[:-1]}':*" if word.endswith("*") else f"'{word}'" for word in words)
    config: ColumnElement[str] = literal_column(f"'{WORDS_CONFIG}'")
    indexed, wanted = func.to_tsvector(config, PASSAGES.c.words), func.to_tsquery(config, asked)
    rank = func.ts_rank_cd(indexed, wanted, 1)
    query = _scoped(scope).where(indexed.op("@@")(wanted)).order_by(rank.desc(), PASSAGES.c.id)
    return list(tx.scalars(query.limit(MOST_RANKED)))


def _scoped(scope: Scope) -> Select[Any]:
    return select(PASSAGES.c.id).join(DOCUMENTS, DOCUMENTS.c.id == PASSAGES.c.document_id).where(scope.where)


def by_vector(tx: Connection, vector: array[float], model: str, scope: Scope) -> list[int] | None:
    """Ids of the passages with the nearest vectors, best first; None if this database cannot compare vectors: neither
    sqlite-vec nor pgvector is available."""
    if tx.dialect.name == "sqlite":
        if not _has_sqlite_vec(tx):
            return None
        distance: Any = func.vec_distance_cosine(PASSAGES.c.vector, vector.tobytes())
        fits = func.length(PASSAGES.c.vector) == len(vector) * vector.itemsize
    else:
        if not tx.scalar(text("SELECT to_regtype('vector') IS NOT NULL")):  # pgvector's
            return None
        fits = func.cardinality(PASSAGES.c.vector) == len(vector)
        asked = "CAST(CAST(:asked AS real[]) AS vector)"
        distance = text(f"CAST(knowledge_passages.vector AS vector) <=> {asked}").bindparams(asked=list(vector))
    query = _scoped(scope).where(PASSAGES.c.model == model, fits).order_by(distance).limit(MOST_RANKED)
    return list(tx.scalars(query))


def nearest_after(
    tx: Connection, after: int, vector: array[float], model: str, scope: Scope
) -> tuple[list[tuple[float, int]], int | None]:
    """Compare one portion of the vectors here: (distance, passage), and the id after which the next portion begins,
    None if there is none."""
    query = _scoped(scope).add_columns(PASSAGES.c.vector).where(PASSAGES.c.model == model, PASSAGES.c.id > after)
    rows = tx.execute(query.order_by(PASSAGES.c.id).limit(COMPARED)).all()
    found = [
        (1 - sum(map(mul, vector, row.vector)), row.id)
        for row in rows
        if row.vector is not None and len(row.vector) == len(vector)
    ]
    return nsmallest(MOST_RANKED, found), rows[-1].id if len(rows) == COMPARED else None


def _has_sqlite_vec(tx: Connection) -> bool:
    """Whether this connection has sqlite-vec, which is loaded at its first search."""
    info = tx.connection.info
    if "sqlite_vec" not in info:
        info["sqlite_vec"] = _loaded(tx.connection.dbapi_connection)
    return bool(info["sqlite_vec"])


def _loaded(connection: Any) -> bool:
    try:
        import sqlite_vec
    except ImportError:
        return False
    try:
        connection.enable_load_extension(True)
        try:
            sqlite_vec.load(connection)
        finally:
            connection.enable_load_extension(False)
    except (AttributeError, OSError, connection.Error):  # this Python or system does not support SQLite extensions
        return False
    return True


def passages(tx: Connection, ids: Sequence[int], scope: Scope) -> list[FoundPassage]:
    """Passages with their documents, in this order, if they are in the scope and still exist."""
    columns = (PASSAGES.c.page, PASSAGES.c.heading, PASSAGES.c.text, PASSAGES.c.id.label("passage"))
    query = select(DOCUMENTS, *columns).join(PASSAGES, DOCUMENTS.c.id == PASSAGES.c.document_id)
    rows = tx.execute(query.where(PASSAGES.c.id.in_(ids), scope.where))
    found = {
        row.passage: FoundPassage(row.passage, value_of(DocumentRow, row), row.page, row.heading, row.text)
        for row in rows
    }
    return [found[known] for known in ids if known in found]


def around(tx: Connection, passage: int, reach: int, scope: Scope) -> list[FoundPassage]:
    """A passage with up to `reach` passages before and after it in its document, in order; [] if it is not in the
    scope."""
    here = tx.execute(select(PASSAGES.c.document_id, PASSAGES.c.number).where(PASSAGES.c.id == passage)).first()
    if here is None:
        return []
    near = PASSAGES.c.number.between(here.number - reach, here.number + reach)
    query = select(PASSAGES.c.id).where(PASSAGES.c.document_id == here.document_id, near).order_by(PASSAGES.c.number)
    return passages(tx, list(tx.scalars(query)), scope)
