"""Documents that people and operators collected, and their passages with a full-text index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "6"
down_revision = "5"

SQLITE = (
    "CREATE VIRTUAL TABLE knowledge_words USING fts5(words, content='knowledge_passages', content_rowid='id', "
    "tokenize='porter ascii')",
    "CREATE TRIGGER knowledge_words_insert AFTER INSERT ON knowledge_passages BEGIN "
    "INSERT INTO knowledge_words(rowid, words) VALUES (new.id, new.words); END",
    "CREATE TRIGGER knowledge_words_delete AFTER DELETE ON knowledge_passages BEGIN "
    "INSERT INTO knowledge_words(knowledge_words, rowid, words) VALUES ('delete', old.id, old.words); END",
)
POSTGRES = ("CREATE INDEX ix_knowledge_passages_words ON knowledge_passages USING gin (to_tsvector('english', words))",)


def upgrade() -> None:
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    op.create_table(
        "knowledge_documents",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("modified", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("passages", sa.Integer(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("added_by", sa.Text(), nullable=False),
        sa.Column("thread_id", sa.Text(), nullable=False),
        sa.Column("added_at", sa.BigInteger(), nullable=False),
        sa.Column("read_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_knowledge_documents")),
    )
    op.create_index(op.f("ix_knowledge_documents_owner_collection"), "knowledge_documents", ["owner", "collection"])
    op.create_index(op.f("ix_knowledge_documents_thread_id"), "knowledge_documents", ["thread_id"])
    op.create_index(op.f("ix_knowledge_documents_added_by"), "knowledge_documents", ["added_by"])
    op.create_table(
        "knowledge_passages",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("document_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("page", sa.Integer(), nullable=True),
        sa.Column("heading", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("vector", sa.LargeBinary() if on_sqlite else postgresql.ARRAY(sa.REAL()), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_knowledge_passages")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_knowledge_passages_document_id"), "knowledge_passages", ["document_id"])
    op.create_index(op.f("ix_knowledge_passages_model"), "knowledge_passages", ["model"])
    for statement in SQLITE if on_sqlite else POSTGRES:
        op.execute(statement)
