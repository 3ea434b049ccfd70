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
    Column("id", SafeText, primary_key=True, doc="random; one document per place"),
    Column("owner", SafeText, nullable=False, doc="a person or a group's conversation; empty: shared by everyone"),
    Column("collection", SafeText, nullable=False, doc="name of the owner's collection"),
    Column("kind", SafeText, nullable=False, doc="folder (a file of a configured folder), file (of a chat), page"),
    Column("place", SafeText, nullable=False, doc="path in its folder, file name or address"),
    Column("title", SafeText, nullable=False, doc="from its content, untrusted; else empty"),
    Column("sha256", SafeText, nullable=False, doc="of the content when last read, hex; empty until then"),
    Column("modified", BigInteger, nullable=False, doc="mtime of a file, nanoseconds since 1970; 0 for others"),
    Column("size", BigInteger, nullable=False, doc="size of the content in bytes"),
    Column("passages", Integer, nullable=False, doc="number of passages"),
    Column("problem", SafeText, nullable=False, doc="why it could not be read, as shown to people; empty: it was read"),
    Column("added_by", SafeText, nullable=False, doc="person id; empty: not added by a person"),
    Column("thread_id", SafeText, nullable=False, doc="thread in which its file was sent, deleted with it; else empty"),
    Column("added_at", Instant, nullable=False, doc="when it was first added"),
    Column("read_at", Instant, nullable=False, doc="when it was last read"),
    Index(None, "owner", "collection"),
    Index(None, "thread_id"),
    Index(None, "added_by"),
)

knowledge_passages = Table(
    "knowledge_passages",
    metadata,
    Column("id", BigId, primary_key=True, doc="order in which they were written"),
    Column("document_id", SafeText, nullable=False, doc="document it is part of"),
    Column("number", Integer, nullable=False, doc="position in the document, from 1"),
    Column("page", Integer, nullable=True, doc="from 1; null: the document has no pages"),
    Column("heading", SafeText, nullable=False, doc="the headings above it"),
    Column("text", SafeText, nullable=False, doc="text as shown"),
    Column("words", SafeText, nullable=False, doc="text as indexed (harness/knowledge/words.py)"),
    Column("model", SafeText, nullable=False, doc="model that computed the vector; empty: no vector"),
    Column("vector", Vector, nullable=True, doc="embedding of the passage, of length 1"),
    Index(None, "document_id"),
    Index(None, "model"),
    sqlite_autoincrement=True,
)


@event.listens_for(knowledge_passages, "after_create")
def _make_index(_table: Table, tx: Connection, **_: object) -> None:
    for statement in SQLITE_INDEX if tx.dialect.name == "sqlite" else POSTGRES_INDEX:
        tx.exec_driver_sql(statement)
