"""The tables of knowledge, and their full-text index: FTS5 on SQLite, a GIN index on PostgreSQL. As in tables.py, `doc`
describes a column.

The index follows the rows automatically (triggers, an index on an expression), so no other code maintains it.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from sqlalchemy import REAL, BigInteger, Column, Index, Integer, LargeBinary, Table, TypeDecorator, event
from sqlalchemy.dialects.postgresql import ARRAY

from bot.store.sql import BigId, Instant, SafeText
from bot.store.tables import metadata

if TYPE_CHECKING:
    from sqlalchemy import Connection, Dialect
    from sqlalchemy.types import TypeEngine

WORDS_CONFIG = "english"
"""PostgreSQL's text search configuration: it stems English; words of other scripts are encoded as digits (words.py)."""
WORDS_INDEX = "ix_knowledge_passages_words"
SQLITE_INDEX = (
    "CREATE VIRTUAL TABLE knowledge_words USING fts5(words, content='knowledge_passages', content_rowid='id', "
    "tokenize='porter ascii')",
    "CREATE TRIGGER knowledge_words_insert AFTER INSERT ON knowledge_passages BEGIN "
    "INSERT INTO knowledge_words(rowid, words) VALUES (new.id, new.words); END",
    "CREATE TRIGGER knowledge_words_delete AFTER DELETE ON knowledge_passages BEGIN "
    "INSERT INTO knowledge_words(knowledge_words, rowid, words) VALUES ('delete', old.id, old.words); END",
)
POSTGRES_INDEX = (f"CREATE INDEX {WORDS_INDEX} ON knowledge_passages USING gin (to_tsvector('{WORDS_CONFIG}', words))",)


class Vector(TypeDecorator["array[float]"]):
    """32-bit floats: on SQLite their bytes, as sqlite-vec expects; on PostgreSQL real[], which pgvector casts."""

    impl = LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(ARRAY(REAL) if dialect.name == "postgresql" else LargeBinary())

    def process_bind_param(self, value: array[float] | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        return list(value) if dialect.name == "postgresql" else value.tobytes()

    def process_result_value(self, value: Any, dialect: Dialect) -> array[float] | None:
        return None if value is None else array("f", value)


knowledge_documents = Table(
    "knowledge_documents",
    metadata,
    Column("id", SafeText, primary_key=True, doc="random; there is one document at a place"),
    Column("owner", SafeText, nullable=False, doc="whose it is: a person, a group's conversation; empty: everybody's"),
    Column("collection", SafeText, nullable=False, doc="its collection's name among the owner's"),
    Column("kind", SafeText, nullable=False, doc="folder (a file of a configured folder), file (of a chat), page"),
    Column("place", SafeText, nullable=False, doc="the path in its folder, the file's name, or the address"),
    Column("title", SafeText, nullable=False, doc="from its content, untrusted; else empty"),
    Column("sha256", SafeText, nullable=False, doc="of its content as it was read last, hex; empty until then"),
    Column("modified", BigInteger, nullable=False, doc="the file's time, nanoseconds since 1970; 0 of others"),
    Column("size", BigInteger, nullable=False, doc="bytes of the content"),
    Column("passages", Integer, nullable=False, doc="how many there are"),
    Column("problem", SafeText, nullable=False, doc="why it could not be read, for people; empty where it could"),
    Column("added_by", SafeText, nullable=False, doc="person id; empty for the machine"),
    Column("thread_id", SafeText, nullable=False, doc="with which it goes: where its file was sent; else empty"),
    Column("added_at", Instant, nullable=False, doc="when it was added first"),
    Column("read_at", Instant, nullable=False, doc="when it was read last"),
    Index(None, "owner", "collection"),
    Index(None, "thread_id"),
    Index(None, "added_by"),
)

knowledge_passages = Table(
    "knowledge_passages",
    metadata,
    Column("id", BigId, primary_key=True, doc="the order in which they were written"),
    Column("document_id", SafeText, nullable=False, doc="whose part it is"),
    Column("number", Integer, nullable=False, doc="its place in the document, from 1"),
    Column("page", Integer, nullable=True, doc="from 1; null where the document has no pages"),
    Column("heading", SafeText, nullable=False, doc="the headings above it"),
    Column("text", SafeText, nullable=False, doc="as it is shown"),
    Column("words", SafeText, nullable=False, doc="as they are indexed (harness/knowledge/words.py)"),
    Column("model", SafeText, nullable=False, doc="that made the vector; empty where there is none"),
    Column("vector", Vector, nullable=True, doc="what it means, of length 1"),
    Index(None, "document_id"),
    Index(None, "model"),
    sqlite_autoincrement=True,
)


@event.listens_for(knowledge_passages, "after_create")
def _make_index(_table: Table, tx: Connection, **_: object) -> None:
    for statement in SQLITE_INDEX if tx.dialect.name == "sqlite" else POSTGRES_INDEX:
        tx.exec_driver_sql(statement)
