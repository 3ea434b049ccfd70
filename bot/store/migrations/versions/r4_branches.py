"""Branches of chats, with their inherited messages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "4"
down_revision = "3"


def upgrade() -> None:
    op.create_table(
        "branches",
        sa.Column("thread_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("source_key", sa.Text(), nullable=False),
        sa.Column("source_thread", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("through", sa.Text(), nullable=False),
        sa.Column("checkpoint", sa.Text(), nullable=True),
        sa.Column("messages", sa.Text(), nullable=False),
        sa.Column("lacks", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("thread_id", name=op.f("pk_branches")),
    )
    op.create_index(op.f("ix_branches_key"), "branches", ["key"])
    op.create_index(op.f("ix_branches_source_key"), "branches", ["source_key"])
