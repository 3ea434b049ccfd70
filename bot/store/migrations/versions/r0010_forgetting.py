"""Deletions that go on after a crash, and when a thread was used last."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("threads", sa.Column("touched_at", sa.BigInteger(), nullable=True))
    # Older versions did not keep it: for what is deleted by its age, every thread counts as used now.
    now = (datetime.now(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    op.execute(sa.text("UPDATE threads SET touched_at = :now").bindparams(now=now))
    op.create_index(op.f("ix_threads_owner"), "threads", ["owner"])
    op.create_table(
        "deletions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("asked_by", sa.Text(), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.Column("reply_key", sa.Text(), nullable=True),
        sa.Column("chat", sa.Text(), nullable=True),
        sa.Column("topic", sa.Text(), nullable=True),
        sa.Column("chat_kind", sa.Text(), nullable=True),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("counts", sa.Text(), nullable=False),
        sa.Column("done_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deletions")),
    )
    op.create_index(op.f("ix_deletions_done_at"), "deletions", ["done_at"])
