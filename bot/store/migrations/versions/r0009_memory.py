"""What is remembered of people and groups, and what is still to be learnt."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "memories",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("last_good", sa.Text(), nullable=True),
        sa.Column("broken", sa.Text(), nullable=True),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner", name=op.f("pk_memories")),
    )
    op.create_table(
        "memory_owners",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("off", sa.Boolean(), nullable=False),
        sa.Column("changed", sa.Integer(), nullable=False),
        sa.Column("forgotten_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("owner", name=op.f("pk_memory_owners")),
    )
    op.create_table(
        "memory_lists",
        sa.Column("conversation", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("shown_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("conversation", name=op.f("pk_memory_lists")),
    )
    op.create_index(op.f("ix_memory_lists_shown_at"), "memory_lists", ["shown_at"])
    _queue()


def _queue() -> None:
    op.create_table(
        "memory_queue",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("thread_id", sa.Text(), nullable=False),
        sa.Column("speaker", sa.Text(), nullable=False),
        sa.Column("conversation", sa.Text(), nullable=False),
        sa.Column("exchange", sa.Text(), nullable=False),
        sa.Column("queued_at", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_memory_queue")),
        sa.UniqueConstraint("run_id", name=op.f("uq_memory_queue_run_id")),
        sqlite_autoincrement=True,
    )
    for columns in (["owner", "due_at"], ["thread_id", "speaker"], ["queued_at"]):
        op.create_index(op.f(f"ix_memory_queue_{'_'.join(columns)}"), "memory_queue", columns)
